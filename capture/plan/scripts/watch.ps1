<#
.SYNOPSIS
    Takes the DMV snapshots until the planned end, keeps an eye on free space, and then stops everything.
.DESCRIPTION
    start.ps1 runs this as a scheduled task, so that it goes on when the session of whoever started it ends.
    Past the planned end it only stops what is still running.
#>
#Requires -Version 4.0
[CmdletBinding()]
param()

# {{ own folder }}

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')

function Test-Room {
    # That Windows does not answer just now is no reason to end a recording: every part has a limit of its own.
    try {
        $volume = Get-FolderVolume $Iotrace.Folder
    } catch {
        $volume = $null
    }
    if (-not $volume) { return $true }
    return ([long] $volume.FreeSpace -ge ([long] $Iotrace.ReserveMiB * $Mebibyte / 2))
}

function Get-SnapshotBytes {
    $bytes = [long] 0
    foreach ($file in @(Get-ChildItem -LiteralPath $Iotrace.Folder -Filter '*-stats.csv' -File)) { $bytes += $file.Length }
    return $bytes
}

function Save-Snapshots {
    param($Connection)
    $files = if (Test-Mark 'old-file-stats') { 'file-stats-2012.sql' } else { 'file-stats.sql' }
    $tables = Read-SqlTables $Connection $files
    Add-Snapshot $tables[0] (Join-Path $Iotrace.Folder 'file-stats.csv')
    $tables = Read-SqlTables $Connection 'wait-stats.sql'
    Add-Snapshot $tables[0] (Join-Path $Iotrace.Folder 'wait-stats.csv')
    if ($Iotrace.SqlEvents) {
        $tables = Read-SqlTables $Connection 'session-losses.sql'
        Add-Snapshot $tables[0] (Join-Path $FactsFolder 'session-losses.txt')
        if ($tables[0].Rows.Count -eq 0 -and -not (Test-Mark 'events-ended')) {
            # It is not started again: whoever stopped it may have had a reason.
            Write-Log 'the Extended Events session has ended, by a restart of SQL Server or by hand; the rest goes on'
            Set-Mark 'events-ended'
        }
    }
}

$until = [DateTime]::Parse([IO.File]::ReadAllText($UntilFile), [Globalization.CultureInfo]::InvariantCulture,
    [Globalization.DateTimeStyles]::RoundtripKind)
$connection = $null
$samples = [bool] $Iotrace.SqlInstance
try {
    if (-not $samples) { Set-Mark 'watching' }
    while ([DateTime]::UtcNow -lt $until) {
        $started = [DateTime]::UtcNow
        if (-not (Test-Room)) { Write-Log 'the drive is running full: recording ends early'; break }
        if ($samples) {
            try {
                if (-not $connection) { $connection = Open-Sql }
                Save-Snapshots $connection
                if (-not (Test-Mark 'watching')) { Set-Mark 'watching' }
            } catch {
                # A restart of SQL Server is part of what may happen in an hour; the next snapshot tries again.
                Write-Log "no snapshot: $($_.Exception.Message)"
                if ($connection) { $connection.Dispose(); $connection = $null }
            }
            if ((Get-SnapshotBytes) -gt ([long] $Iotrace.SnapshotLimitMiB * $Mebibyte)) {
                Write-Log 'snapshots have reached their limit'
                Set-Mark 'snapshots-full'
                $samples = $false
            }
        }
        $pause = $Iotrace.SnapshotSeconds - ([DateTime]::UtcNow - $started).TotalSeconds
        $left = ($until - [DateTime]::UtcNow).TotalSeconds
        $milliseconds = [int] (1000 * [Math]::Max(0.1, [Math]::Min($pause, $left)))
        Start-Sleep -Milliseconds $milliseconds
    }
    if ($samples -and $connection) {
        try { Save-Snapshots $connection } catch { Write-Log "no last snapshot: $($_.Exception.Message)" }
    }
} finally {
    if ($connection) { $connection.Dispose() }
    try {
        & (Join-Path $PSScriptRoot 'stop.ps1') -FromWatch
    } catch {
        # Nobody sees what a task throws.
        Write-Log "not everything is stopped, run stop.ps1: $($_.Exception.Message)"
        throw
    }
}
