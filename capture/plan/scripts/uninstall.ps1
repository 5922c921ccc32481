<#
.SYNOPSIS
    Stops and removes everything this plan has on the host. Recorded data stays unless -DeleteData is given.
.PARAMETER DeleteData
    Deletes the capture folder with all that was recorded.
#>
#Requires -Version 4.0
[CmdletBinding()]
param([switch] $DeleteData)

# {{ own folder }}

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')
. (Join-Path $PSScriptRoot 'removing.ps1')

Assert-Elevated
Assert-OwnFolder
& (Join-Path $PSScriptRoot 'stop.ps1')
Remove-Definitions
if (-not (Test-Path -LiteralPath $OwnerFile)) { Write-Host 'nothing of this plan is left on this host'; return }
if ($DeleteData) {
    Remove-Tree $Iotrace.Folder
    Write-Host "$($Iotrace.Folder) is deleted; nothing of this plan is left on this host"
} else {
    foreach ($folder in @($StateFolder, (Join-Path $Iotrace.Folder 'scripts'))) {
        if (Test-Path -LiteralPath $folder) { Remove-Tree $folder }
    }
    Write-Host "only recorded data is left, in $($Iotrace.Folder); delete it with -DeleteData or by hand"
}
