# Functions that the other scripts share. Reading this file changes nothing.
# Written for Windows PowerShell 4.0 and 5.1, which Windows Server 2012 R2 to 2025 bring along.

Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'
$Mebibyte = 1048576

. (Join-Path $PSScriptRoot 'settings.ps1')

# By their full paths, so that no program of the same name elsewhere is ever run with an administrator's rights.
$System32 = [Environment]::SystemDirectory
$Logman = Join-Path $System32 'logman.exe'
$Icacls = Join-Path $System32 'icacls.exe'
$PowerShellProgram = Join-Path $System32 'WindowsPowerShell\v1.0\powershell.exe'

$KernelLogger = 'NT Kernel Logger'
$StorPortSession = $Iotrace.Name + '_storport'
$CounterSet = $Iotrace.Name + '_counters'
$WatchTask = $Iotrace.Name + '_watch'

$KernelFile = Join-Path $Iotrace.Folder 'kernel.etl'
$StorPortFile = Join-Path $Iotrace.Folder 'storport.etl'
$CounterFile = Join-Path $Iotrace.Folder 'counters'
$SqlFolder = Join-Path $Iotrace.Folder 'sql'
$FactsFolder = Join-Path $Iotrace.Folder 'facts'
$StateFolder = Join-Path $Iotrace.Folder 'state'
$OwnerFile = Join-Path $Iotrace.Folder 'iotrace-capture.txt'
$UntilFile = Join-Path $StateFolder 'until.txt'

function Write-Log {
    param([string] $Text)
    $now = [DateTime]::UtcNow.ToString('yyyy-MM-dd HH:mm:ss', [Globalization.CultureInfo]::InvariantCulture)
    Write-Host "$now UTC  $Text"
    if (Test-Path -LiteralPath $OwnerFile) {
        try {
            $log = Join-Path $Iotrace.Folder 'log.txt'
            [IO.File]::AppendAllText($log, "$now UTC  $Text`r`n", [Text.Encoding]::UTF8)
        } catch [IO.IOException] {
            Write-Host 'the log is in use by another of these scripts; this line is not in it'
        }
    }
}

function Assert-Elevated {
    $identity = [Security.Principal.WindowsIdentity]::GetCurrent()
    $principal = New-Object Security.Principal.WindowsPrincipal($identity)
    if (-not $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)) {
        throw 'Open PowerShell with "Run as administrator" and run this script again.'
    }
    if (-not [Environment]::Is64BitProcess) {
        throw 'This is the 32-bit PowerShell. Run this script in the 64-bit one.'
    }
}

# Who may own and change what an administrator runs: Administrators, the system, and those who install Windows.
$Trusted = @('S-1-5-32-544', 'S-1-5-18')
$MayOwnAbove = $Trusted + @('S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464')
$TrustedAbove = $MayOwnAbove + @('S-1-3-0')

function New-FolderSecurity {
    # Only administrators and the system may read or change it and what comes into it.
    $security = New-Object Security.AccessControl.DirectorySecurity
    $security.SetSecurityDescriptorSddlForm('O:BAG:BAD:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)')
    return $security
}

function Test-Link {
    # Whether a path is a junction, a mount point or a symbolic link.
    param([string] $Path)
    return [bool] ([IO.File]::GetAttributes($Path) -band [IO.FileAttributes]::ReparsePoint)
}

function Get-OwnSecurity {
    # The rights on a file or folder; throws if it is a link, or belongs to somebody who is neither administrator nor system.
    param([string] $Path)
    if (Test-Link $Path) {
        throw "$Path is a link. Remove it, or write the plan for another folder."
    }
    $security = if ([IO.Directory]::Exists($Path)) {
        [IO.Directory]::GetAccessControl($Path)
    } else {
        [IO.File]::GetAccessControl($Path)
    }
    $owner = $security.GetOwner([Security.Principal.SecurityIdentifier]).Value
    if ($Trusted -notcontains $owner) {
        throw "$Path belongs to $owner, not to the administrators. Somebody else made it: look at it, and remove it."
    }
    return $security
}

function Assert-Locked {
    # Throws unless nobody but administrators and the system owns a file or folder or has any right on it.
    param([string] $Path)
    $security = Get-OwnSecurity $Path
    $sid = [Security.Principal.SecurityIdentifier]
    foreach ($rule in $security.GetAccessRules($true, $true, $sid)) {
        if ($rule.AccessControlType -eq 'Allow' -and $Trusted -notcontains $rule.IdentityReference.Value) {
            throw "$Path may be used by $($rule.IdentityReference.Value). Look at it, and remove it."
        }
    }
}

function Assert-OwnFolder {
    # Throws if somebody else made the capture folder or may exchange it: what lies in it decides what is stopped, written
    # and deleted. Rights on it are not asked about: Explorer gives them to an administrator who looks inside, and what
    # records must be stopped all the same.
    if (-not (Test-Path -LiteralPath $Iotrace.Folder)) { return }
    [void] (Get-OwnSecurity $Iotrace.Folder)
    Assert-LockedAbove $Iotrace.Folder
}

function Assert-LockedAbove {
    # Throws if somebody else may take away a folder above, and put another in its place.
    param([string] $Path)
    $sid = [Security.Principal.SecurityIdentifier]
    $within = [Security.AccessControl.FileSystemRights] 'DeleteSubdirectoriesAndFiles, ChangePermissions, TakeOwnership'
    $away = $within -bor [Security.AccessControl.FileSystemRights] 'Delete'
    $folder = [IO.Directory]::GetParent($Path)
    while ($folder -ne $null) {
        if ($folder.Exists) {
            # The root of a drive can be neither renamed nor deleted.
            $taking = if ($folder.Parent -ne $null) { $away } else { $within }
            if ($folder.Parent -ne $null -and ($folder.Attributes -band [IO.FileAttributes]::ReparsePoint)) {
                throw "$($folder.FullName) is a link. Write the plan for a folder that is none and lies in none."
            }
            # An owner may give himself any right, whatever the rules say now.
            $security = $folder.GetAccessControl()
            $owner = $security.GetOwner($sid).Value
            if ($MayOwnAbove -notcontains $owner) {
                throw ("$($folder.FullName) belongs to $owner, who could put other scripts in place of these. Write the plan for " +
                    "another folder, or make it the administrators': icacls ""$($folder.FullName)"" /setowner ""*S-1-5-32-544""")
            }
            foreach ($rule in $security.GetAccessRules($true, $true, $sid)) {
                $applies = -not ($rule.PropagationFlags -band [Security.AccessControl.PropagationFlags]::InheritOnly)
                if ($applies -and $rule.AccessControlType -eq 'Allow' -and ($rule.FileSystemRights -band $taking) -and
                    $TrustedAbove -notcontains $rule.IdentityReference.Value) {
                    throw ("$($folder.FullName) may be changed by $($rule.IdentityReference.Value), who could put other " +
                        'scripts in place of these. Write the plan for a folder that only administrators may rename.')
                }
            }
        }
        $folder = $folder.Parent
    }
}

function Invoke-Tool {
    # Runs a program of Windows and returns its words; throws with them when it reports a failure.
    param([string] $Program, [string[]] $Arguments)
    $before = $ErrorActionPreference
    $ErrorActionPreference = 'Continue'
    try {
        $output = & $Program $Arguments 2>&1 | Out-String
        $status = $LASTEXITCODE
    } finally {
        $ErrorActionPreference = $before
    }
    if ($status -ne 0) {
        throw ('{0} {1}: status {2}: {3}' -f $Program, ($Arguments -join ' '), $status, $output.Trim())
    }
    return $output
}

function Test-Tool {
    # Whether a program of Windows reports success. Its words depend on the language of Windows, its status does not.
    param([string] $Program, [string[]] $Arguments)
    $before = $ErrorActionPreference
    $ErrorActionPreference = 'Continue'
    try {
        & $Program $Arguments 2>&1 | Out-Null
        return ($LASTEXITCODE -eq 0)
    } finally {
        $ErrorActionPreference = $before
    }
}

# What was started is marked by a file each, so that stopping works from any window, at any time, any number of times.

function Set-Mark {
    param([string] $Name)
    [IO.File]::WriteAllText((Join-Path $StateFolder $Name), [DateTime]::UtcNow.ToString('o'))
}

function Test-Mark {
    param([string] $Name)
    return (Test-Path -LiteralPath (Join-Path $StateFolder $Name))
}

function Clear-Mark {
    param([string] $Name)
    $file = Join-Path $StateFolder $Name
    if (Test-Path -LiteralPath $file) { Remove-Item -LiteralPath $file }
}

function Get-FolderVolume {
    # The volume a folder lies on, mount points included: the one with the longest path that the folder begins with.
    param([string] $Path)
    $full = $Path.TrimEnd('\') + '\'
    return Get-CimInstance -ClassName Win32_Volume |
        Where-Object { $_.Name -and $full.StartsWith($_.Name, [StringComparison]::OrdinalIgnoreCase) } |
        Sort-Object -Property { $_.Name.Length } -Descending | Select-Object -First 1
}

function Test-OwnKernelSession {
    # The kernel logger has one name for everybody. It is ours only if it writes to our file.
    if (-not (Test-Tool $Logman @('query', $KernelLogger, '-ets'))) { return $false }
    $words = Invoke-Tool $Logman @('query', $KernelLogger, '-ets')
    # What logman prints is in a code page that may lack letters of the path, and may be broken into lines: a path that
    # is not found again would leave the session running.
    $pattern = [regex]::Replace([regex]::Escape(($KernelFile -replace '\s', '')), '[^\x20-\x7E]', '.{0,4}')
    return [regex]::IsMatch(($words -replace '\s', ''), $pattern, 'IgnoreCase, CultureInvariant')
}

function Get-TraceLosses {
    # Events and buffers that an event trace lost, from its header: bytes 72 on hold the event that describes the log.
    param([string] $Path)
    $stream = [IO.File]::Open($Path, [IO.FileMode]::Open, [IO.FileAccess]::Read, [IO.FileShare]::ReadWrite)
    try {
        $bytes = New-Object byte[] 512
        $count = $stream.Read($bytes, 0, $bytes.Length)
    } finally {
        $stream.Dispose()
    }
    if ($count -lt 512) { throw "$Path is too short to be an event trace" }
    $pointerBytes = [BitConverter]::ToUInt32($bytes, 148)
    if ($pointerBytes -ne 4 -and $pointerBytes -ne 8) { throw "$Path is no event trace" }
    return @{
        EventsLost = [BitConverter]::ToUInt32($bytes, 152)
        BuffersLost = [BitConverter]::ToUInt32($bytes, 364 + 2 * $pointerBytes)
        IsClosed = ([BitConverter]::ToInt64($bytes, 120) -ne 0)
    }
}
