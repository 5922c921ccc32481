<#
.SYNOPSIS
    Stops everything, looks for lost events, removes all definitions and packs what was recorded into one folder.
.DESCRIPTION
    The folder that its last line names is what "iotrace import FOLDER" takes. Files are moved, which needs no room.
    May be run again: it packs what is left, or names what it packed before.
.PARAMETER Zip
    Makes a .zip of that folder too, which "iotrace import" takes as well. It needs up to a third of the folder's size.
#>
#Requires -Version 4.0
[CmdletBinding()]
param([switch] $Zip)

# {{ own folder }}

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')
. (Join-Path $PSScriptRoot 'facts.ps1')
. (Join-Path $PSScriptRoot 'removing.ps1')

function Get-Recorded {
    # What was recorded and is not packed yet.
    Get-ChildItem -LiteralPath $Iotrace.Folder -File | Where-Object { $_.Extension -in '.etl', '.blg', '.csv' }
    if (Test-Path -LiteralPath $SqlFolder) {
        # The service of SQL Server may write here, and links with it: what they lead to is not what was recorded.
        if (Test-Link $SqlFolder) { throw "$SqlFolder was made a link. Look at who did that, remove it, and run this again." }
        Get-ChildItem -LiteralPath $SqlFolder -Filter '*.xel' -File | Where-Object { -not (Test-Link $_.FullName) }
    }
}

function Get-NewFolder {
    # Where to pack to: named by the minute, and a number where that is taken.
    $stamp = [DateTime]::UtcNow.ToString('yyyyMMdd-HHmm', [Globalization.CultureInfo]::InvariantCulture)
    $base = Join-Path $Iotrace.Folder ('{0}-{1}-{2}' -f $Iotrace.Name, $env:COMPUTERNAME, $stamp)
    $name = $base
    for ($number = 2; Test-Path -LiteralPath $name; $number++) { $name = "$base-$number" }
    return $name
}

function Get-LastPacked {
    # The folder that an earlier run packed last; nothing where there is none.
    Get-ChildItem -LiteralPath $Iotrace.Folder -Directory | Where-Object { $_.Name.StartsWith($Iotrace.Name + '-') } |
        Sort-Object -Property LastWriteTimeUtc | Select-Object -Last 1 | ForEach-Object { $_.FullName }
}

function Remove-Leftovers {
    foreach ($folder in @($SqlFolder, $StateFolder, (Join-Path $Iotrace.Folder 'scripts'))) {
        if (Test-Path -LiteralPath $folder) { Remove-Tree $folder }
    }
    $list = Join-Path $Iotrace.Folder 'counters.txt'
    if (Test-Path -LiteralPath $list) { Remove-Item -LiteralPath $list }
}

Assert-Elevated
Assert-OwnFolder
if (-not (Test-Path -LiteralPath $OwnerFile)) {
    throw "$($Iotrace.Folder) holds nothing of this plan. Was start.ps1 run?"
}
& (Join-Path $PSScriptRoot 'stop.ps1')
Remove-Definitions

$recorded = @(Get-Recorded)
if ($recorded.Count -eq 0) {
    Remove-Leftovers
    # Facts are packed before anything else: these are of a start that recorded nothing.
    if (Test-Path -LiteralPath $FactsFolder) { Remove-Tree $FactsFolder }
    $packed = Get-LastPacked
    if (-not $packed) {
        Write-Log 'nothing was recorded, so nothing is packed'
        return
    }
    Write-Log 'nothing is left to pack; this is what was packed last'
} else {
    [void] [IO.Directory]::CreateDirectory($FactsFolder)
    Save-HostFacts (Join-Path $FactsFolder 'host-after.json')
    Save-VolumePaths (Join-Path $FactsFolder 'volumes-after.csv')

    $losses = @()
    foreach ($file in @(Get-ChildItem -LiteralPath $Iotrace.Folder -Filter '*.etl' -File)) {
        try {
            $lost = Get-TraceLosses $file.FullName
            $losses += '{0}: {1} events and {2} buffers lost' -f $file.Name, $lost.EventsLost, $lost.BuffersLost
            if ($lost.EventsLost -gt 0 -or $lost.BuffersLost -gt 0) {
                Write-Warning "$($file.Name) lost events: record again with fewer layers or on a faster drive"
            }
            if (-not $lost.IsClosed) { Write-Warning "$($file.Name) was not closed properly" }
            # What a circular file overwrote counts as lost nowhere.
            $limit = $Iotrace.KernelLimitMiB
            if ($file.Name -eq 'storport.etl') { $limit = $Iotrace.StorPortLimitMiB }
            if ($file.Length -ge ($limit - 2) * $Mebibyte) {
                $losses += "$($file.Name): reached its limit, only its end is there"
                Write-Warning "$($losses[-1]): write the plan for a higher --iops or fewer minutes"
            }
        } catch {
            $losses += "$($file.Name): $($_.Exception.Message)"
            Write-Warning $losses[-1]
        }
    }
    foreach ($file in @(Get-ChildItem -LiteralPath $Iotrace.Folder -Filter 'counters*' -File)) {
        if ($file.Length -ge ($Iotrace.CounterLimitMiB - 2) * $Mebibyte) {
            $losses += "$($file.Name): reached its limit and ended before the recording did"
            Write-Warning "$($losses[-1]): write the plan for fewer minutes"
        }
    }
    if (Test-Mark 'snapshots-full') {
        $losses += 'DMV snapshots: reached their limit and ended before the recording did'
        Write-Warning "$($losses[-1]): write the plan for fewer minutes or more --snapshot-seconds"
    }
    $sessionLosses = Join-Path $FactsFolder 'session-losses.txt'
    if (Test-Path -LiteralPath $sessionLosses) {
        $samples = @(Import-Csv -LiteralPath $sessionLosses)
        if ($samples.Count -gt 0) {
            $last = $samples[-1]
            $events, $buffers = [long] $last.dropped_event_count, [long] $last.dropped_buffer_count
            $losses += 'Extended Events: {0} events and {1} buffers lost' -f $events, $buffers
            if ($events -gt 0 -or $buffers -gt 0) { Write-Warning 'the Extended Events session lost events' }
        } else {
            $losses += 'Extended Events: not known, the session had ended before it was asked'
        }
    }
    if (Test-Mark 'events-ended') {
        $losses += 'Extended Events: the session had ended before the recording did, as when SQL Server restarts: log.txt'
        Write-Warning $losses[-1]
    }
    [IO.File]::WriteAllLines((Join-Path $FactsFolder 'losses.txt'), [string[]] $losses)
    $losses | ForEach-Object { Write-Log $_ }

    $log = Join-Path $Iotrace.Folder 'log.txt'
    if (Test-Path -LiteralPath $log) { Copy-Item -LiteralPath $log -Destination $FactsFolder }

    $packed = Get-NewFolder
    [void] [IO.Directory]::CreateDirectory($packed)
    # Facts go first: should a file be in use, the next run packs the rest beside facts of its own.
    Move-Item -LiteralPath $FactsFolder -Destination $packed
    $recorded | Move-Item -Destination $packed
    Remove-Leftovers
}

if ($Zip) {
    if (-not (Test-Path -LiteralPath "$packed.zip")) {
        Add-Type -AssemblyName System.IO.Compression.FileSystem
        # By another name until it is whole: a drive may run full before that.
        $file = "$packed.partial"
        if (Test-Path -LiteralPath $file) { Remove-Item -LiteralPath $file }
        [IO.Compression.ZipFile]::CreateFromDirectory($packed, $file)
        Move-Item -LiteralPath $file -Destination "$packed.zip"
    }
    Write-Log "packed: $packed.zip"
}
Write-Log "packed: $packed"
Write-Host "copy it to where iotrace is, and there: iotrace import $(Split-Path -Leaf $packed) -o production.iotrace"
