# Counter paths for logman, which takes them in the language of Windows only. Reading this file changes nothing.

function Get-PerflibNames {
    # Names of all counters by number: 009 for English, CurrentLanguage for the language of Windows.
    param([string] $Language)
    $key = "HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Perflib\$Language"
    $pairs = @((Get-ItemProperty -LiteralPath $key -Name Counter).Counter)
    $names = @{}
    for ($position = 0; $position + 1 -lt $pairs.Count; $position += 2) {
        $number = $pairs[$position] -as [int]
        if ($number) { $names[$number] = $pairs[$position + 1] }
    }
    return $names
}

function Get-PerflibNumbers {
    # The numbers that each name has, the lowest first.
    param([hashtable] $Names)
    $numbers = @{}
    foreach ($number in @($Names.Keys | Sort-Object)) {
        if (-not $numbers.ContainsKey($Names[$number])) { $numbers[$Names[$number]] = @() }
        $numbers[$Names[$number]] += $number
    }
    return $numbers
}

function Get-NumberAbove {
    # The lowest number above another that a name has; 0 for none.
    param([hashtable] $Numbers, [string] $Name, [int] $Above)
    if (-not $Numbers.ContainsKey($Name)) { return 0 }
    foreach ($number in $Numbers[$Name]) {
        if ($number -gt $Above) { return $number }
    }
    return 0
}

function Get-CounterPaths {
    # The paths of a list, with the objects of a named instance, in the language of Windows. A name that has no
    # translation stays as it is.
    param([string] $Path, [string] $InstanceName)
    $local, $numbers = @{}, @{}
    try {
        $numbers = Get-PerflibNumbers (Get-PerflibNames '009')
        $local = Get-PerflibNames 'CurrentLanguage'
    } catch {
        Write-Log "counter names are not translated: $($_.Exception.Message)"
    }
    foreach ($line in [IO.File]::ReadAllLines($Path)) {
        if ($line -notmatch '^\\(?<object>[^\\(]+)(?<instance>\(.*\))?\\(?<counter>[^\\]+)$') { continue }
        $object, $instance, $counter = $Matches['object'], '', $Matches['counter']
        if ($Matches.ContainsKey('instance')) { $instance = $Matches['instance'] }
        $isOfSql = $object.StartsWith('SQLServer:')
        if ($InstanceName -and $isOfSql) { $object = 'MSSQL$' + $InstanceName + $object.Substring(9) }
        $objectNumber = Get-NumberAbove $numbers $object 0
        # SQL Server calls some counters as Windows does, "Page reads/sec" and "Disk Read Bytes/sec", but translates them
        # otherwise or not at all. The numbers of Windows come first, those of SQL Server's counters after their object's.
        $counterNumber = 0
        if (-not $isOfSql) {
            $counterNumber = Get-NumberAbove $numbers $counter 0
        } elseif ($objectNumber) {
            $counterNumber = Get-NumberAbove $numbers $counter $objectNumber
        }
        if ($local.ContainsKey($objectNumber)) { $object = $local[$objectNumber] }
        if ($local.ContainsKey($counterNumber)) { $counter = $local[$counterNumber] }
        '\' + $object + $instance + '\' + $counter
    }
}
