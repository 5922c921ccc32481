# Counter paths for logman, which takes them in the language of Windows only. Reading this file changes nothing.

function Get-PerflibNames {
    # Numbers and names of all counters: 009 for English, CurrentLanguage for the language of Windows.
    param([string] $Language)
    $key = "HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion\Perflib\$Language"
    $pairs = @((Get-ItemProperty -LiteralPath $key -Name Counter).Counter)
    $names = @{}
    for ($position = 0; $position + 1 -lt $pairs.Count; $position += 2) {
        $names[$pairs[$position]] = $pairs[$position + 1]
    }
    return $names
}

function Get-CounterPaths {
    # The paths of a list, with the objects of a named instance, in the language of Windows. A name that has no
    # translation stays as it is.
    param([string] $Path, [string] $InstanceName)
    $translated = @{}
    try {
        $local = Get-PerflibNames 'CurrentLanguage'
        $english = Get-PerflibNames '009'
        foreach ($number in $english.Keys) {
            if ($local.ContainsKey($number) -and -not $translated.ContainsKey($english[$number])) {
                $translated[$english[$number]] = $local[$number]
            }
        }
    } catch {
        Write-Log "counter names are not translated: $($_.Exception.Message)"
    }
    foreach ($line in [IO.File]::ReadAllLines($Path)) {
        if ($line -notmatch '^\\(?<object>[^\\(]+)(?<instance>\(.*\))?\\(?<counter>[^\\]+)$') { continue }
        $object, $instance, $counter = $Matches['object'], '', $Matches['counter']
        if ($Matches.ContainsKey('instance')) { $instance = $Matches['instance'] }
        if ($InstanceName -and $object.StartsWith('SQLServer:')) {
            $object = 'MSSQL$' + $InstanceName + $object.Substring(9)
        }
        if ($translated.ContainsKey($object)) { $object = $translated[$object] }
        if ($translated.ContainsKey($counter)) { $counter = $translated[$counter] }
        '\' + $object + $instance + '\' + $counter
    }
}
