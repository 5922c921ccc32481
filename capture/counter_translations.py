"""Names of the disk counters on localized Windows, as far as they were seen in scripts that ran on such machines.

Windows translates names of objects and counters, not of hosts and instances. What is not in these tables is left as it
is, without a metric: a wrong meaning would be worse than none. Releases differ in apostrophes, so those are folded.
"""
# ruff: noqa: RUF001 - names in other alphabets

from typing import Final

_OBJECTS: Final[dict[str, str]] = {
    "physikalischer datenträger": "PhysicalDisk", "logischer datenträger": "LogicalDisk",
    "disque physique": "PhysicalDisk", "disque logique": "LogicalDisk",
    "disco físico": "PhysicalDisk", "disco lógico": "LogicalDisk",
    "disco fisico": "PhysicalDisk", "disco logico": "LogicalDisk",
    "физический диск": "PhysicalDisk", "логический диск": "LogicalDisk",
}  # fmt: skip

_COUNTERS: Final[dict[str, str]] = {
    # German
    "mittlere sek./lesevorgänge": "Avg. Disk sec/Read",
    "mittlere sek./schreibvorgänge": "Avg. Disk sec/Write",
    "lesevorgänge/s": "Disk Reads/sec",
    "schreibvorgänge/s": "Disk Writes/sec",
    "übertragungen/s": "Disk Transfers/sec",
    "bytes gelesen/s": "Disk Read Bytes/sec",
    "bytes geschrieben/s": "Disk Write Bytes/sec",
    "aktuelle warteschlangenlänge": "Current Disk Queue Length",
    "durchschnittl. warteschlangenlänge der datenträger-lesevorgänge": "Avg. Disk Read Queue Length",
    "durchschnittl. warteschlangenlänge der datenträger-schreibvorgänge": "Avg. Disk Write Queue Length",
    # French
    "moyenne disque s/lecture": "Avg. Disk sec/Read",
    "moyenne disque s/écriture": "Avg. Disk sec/Write",
    "moyenne disque s/transfert": "Avg. Disk sec/Transfer",
    "lectures disque/s": "Disk Reads/sec",
    "écritures disque/s": "Disk Writes/sec",
    "transferts disque/s": "Disk Transfers/sec",
    "octets disque/s": "Disk Bytes/sec",
    "lectures disque, octets/s": "Disk Read Bytes/sec",
    "écritures disque, octets/s": "Disk Write Bytes/sec",
    "moyenne disque, octets/lecture": "Avg. Disk Bytes/Read",
    "moyenne disque, octets/écriture": "Avg. Disk Bytes/Write",
    "moyenne disque, octets/transfert": "Avg. Disk Bytes/Transfer",
    "longueur moyenne de file d'attente du disque": "Avg. Disk Queue Length",
    "longueur moyenne de file d'attente lecture disque": "Avg. Disk Read Queue Length",
    "longueur moyenne de file d'attente écriture disque": "Avg. Disk Write Queue Length",
    "taille de file d'attente du disque actuelle": "Current Disk Queue Length",
    "pourcentage du temps disque": "% Disk Time",
    "pourcentage du temps de lecture du disque": "% Disk Read Time",
    "pourcentage du temps écriture du disque": "% Disk Write Time",
    "% d'inactivité": "% Idle Time",
    # Spanish
    "promedio de segundos de disco/lectura": "Avg. Disk sec/Read",
    "promedio de segundos de disco/escritura": "Avg. Disk sec/Write",
    "transferencias de disco/s": "Disk Transfers/sec",
    "bytes de lectura de disco/s": "Disk Read Bytes/sec",
    "bytes de escritura en disco/s": "Disk Write Bytes/sec",
    # Italian
    "byte letti da disco/sec": "Disk Read Bytes/sec",
    "byte scritti su disco/sec": "Disk Write Bytes/sec",
    "trasferimenti disco/sec": "Disk Transfers/sec",
    # Portuguese
    "bytes escritos em disco/seg": "Disk Write Bytes/sec",
    "bytes de gravação de disco/s": "Disk Write Bytes/sec",
    # Russian
    "среднее время чтения с диска (с)": "Avg. Disk sec/Read",
    "среднее время записи на диск (с)": "Avg. Disk sec/Write",
    "средняя длина очереди диска": "Avg. Disk Queue Length",
    "текущая длина очереди диска": "Current Disk Queue Length",
    "скорость чтения с диска (байт/с)": "Disk Read Bytes/sec",
    "скорость записи на диск (байт/с)": "Disk Write Bytes/sec",
    "обращений записи на диск/с": "Disk Writes/sec",
    "% активности диска": "% Disk Time",
}


def english(object_name: str, counter: str) -> tuple[str, str]:
    """Both names in English where they are a known translation of a disk counter, else as they are."""
    english_object = _OBJECTS.get(_fold(object_name), object_name)
    if english_object.lower() not in {"physicaldisk", "logicaldisk"}:
        return object_name, counter
    return english_object, _COUNTERS.get(_fold(counter), counter)


def is_known_object(object_name: str) -> bool:
    """Whether ``object_name`` is a known translation of a disk object."""
    return _fold(object_name) in _OBJECTS


def _fold(name: str) -> str:
    return name.strip().lower().replace("’", "'")
