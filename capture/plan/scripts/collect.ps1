<#
.SYNOPSIS
    Stops everything, looks for lost events, removes all definitions and packs what was recorded into one folder.
.DESCRIPTION
    The folder that its last line names is what "iotrace import FOLDER" takes. Files are moved, which needs no room.
.PARAMETER Zip
    Makes a .zip of that folder too, which "iotrace import" takes as well. It needs up to a third of the folder's size.
#>
#Requires -Version 4.0
[CmdletBinding()]
param([switch] $Zip)

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')
. (Join-Path $PSScriptRoot 'facts.ps1')
. (Join-Path $PSScriptRoot 'removing.ps1')

Assert-Elevated
if (-not (Test-Path -LiteralPath $OwnerFile)) {
    throw "$($Iotrace.Folder) holds nothing of this plan. Was start.ps1 run?"
}
& (Join-Path $PSScriptRoot 'stop.ps1')
[void] [IO.Directory]::CreateDirectory($FactsFolder)
Save-HostFacts (Join-Path $FactsFolder 'host-after.json')
Save-VolumePaths (Join-Path $FactsFolder 'volumes-after.csv')
Remove-Definitions

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
[IO.File]::WriteAllLines((Join-Path $FactsFolder 'losses.txt'), [string[]] $losses)
$losses | ForEach-Object { Write-Log $_ }

$stamp = [DateTime]::UtcNow.ToString('yyyyMMdd-HHmm', [Globalization.CultureInfo]::InvariantCulture)
$packed = Join-Path $Iotrace.Folder ('{0}-{1}-{2}' -f $Iotrace.Name, $env:COMPUTERNAME, $stamp)
[void] [IO.Directory]::CreateDirectory($packed)
Get-ChildItem -LiteralPath $Iotrace.Folder -File | Where-Object { $_.Extension -in '.etl', '.blg', '.csv' } |
    Move-Item -Destination $packed
Get-ChildItem -LiteralPath $SqlFolder -Filter '*.xel' -File | Move-Item -Destination $packed
Move-Item -LiteralPath $FactsFolder -Destination $packed
foreach ($folder in @($SqlFolder, $StateFolder, (Join-Path $Iotrace.Folder 'scripts'))) {
    if (Test-Path -LiteralPath $folder) { Remove-Item -LiteralPath $folder -Recurse -Force }
}
$list = Join-Path $Iotrace.Folder 'counters.txt'
if (Test-Path -LiteralPath $list) { Remove-Item -LiteralPath $list }

if ($Zip) {
    Add-Type -AssemblyName System.IO.Compression.FileSystem
    [IO.Compression.ZipFile]::CreateFromDirectory($packed, "$packed.zip")
    Write-Log "packed: $packed.zip"
}
Write-Log "packed: $packed"
Write-Host "copy it to where iotrace is, and there: iotrace import $(Split-Path -Leaf $packed) -o production.iotrace"
