<#
.SYNOPSIS
    Starts the recording that settings.ps1 describes. It ends by itself after the planned minutes.
.DESCRIPTION
    Checks first and starts afterwards; when anything fails, what was started already is stopped again.
    Nothing is installed. Everything that is created carries the plan's name and is listed in README.md.
.PARAMETER UseWpr
    Records the kernel trace with Windows Performance Recorder instead of logman.
.PARAMETER Foreground
    Takes the DMV snapshots in this window, which must then stay open, instead of a scheduled task.
#>
#Requires -Version 4.0
[CmdletBinding()]
param([switch] $UseWpr, [switch] $Foreground)

# {{ own folder }}

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')
. (Join-Path $PSScriptRoot 'counters.ps1')
. (Join-Path $PSScriptRoot 'facts.ps1')

function Assert-NothingOfThisNameExists {
    if (Test-Path -LiteralPath $Iotrace.Folder) {
        if (-not (Test-Path -LiteralPath $Iotrace.Folder -PathType Container)) {
            throw "$($Iotrace.Folder) is a file. Choose another folder when writing the plan."
        }
        Assert-Locked $Iotrace.Folder
        # What collect.ps1 packed before may stay.
        $other = @(Get-ChildItem -LiteralPath $Iotrace.Folder -Force | Where-Object {
                $_.Name -ne 'iotrace-capture.txt' -and $_.Name -ne 'log.txt' -and -not $_.Name.StartsWith($Iotrace.Name + '-')
            })
        if ($other.Count -gt 0) {
            throw "$($Iotrace.Folder) holds $($other[0].Name). Run collect.ps1, which packs what is there, or move it away."
        }
    }
    if (Test-Tool $Logman @('query', $CounterSet)) {
        throw "There is a counter log named $CounterSet already. Run uninstall.ps1 if it is left over from this plan."
    }
    if (Test-Tool $Logman @('query', $StorPortSession, '-ets')) {
        throw "There is a trace session named $StorPortSession already. Run stop.ps1 if it is left over from this plan."
    }
    if (Get-ScheduledTask -TaskName $WatchTask -ErrorAction SilentlyContinue) {
        throw "There is a scheduled task named $WatchTask already. Run uninstall.ps1 if it is left over from this plan."
    }
    if (-not $UseWpr -and $Iotrace.KernelFlags -ne 0 -and (Test-Tool $Logman @('query', $KernelLogger, '-ets'))) {
        throw ("Another program is using the session '$KernelLogger', of which Windows has one. See who with " +
            "'logman query ""$KernelLogger"" -ets', end it there, or try start.ps1 -UseWpr.")
    }
}

function Assert-Room {
    $volume = Get-FolderVolume $Iotrace.Folder
    if (-not $volume) { throw "The drive of $($Iotrace.Folder) does not exist on this host." }
    if ($volume.DriveType -ne 3) { throw "$($volume.Name) is no local disk. Write the plan for a folder on one." }
    $needed = ([long] $Iotrace.TotalLimitMiB + $Iotrace.ReserveMiB) * $Mebibyte
    if ([long] $volume.FreeSpace -lt $needed) {
        throw (('{0} has {1:N0} MB free; this plan may write {2:N0} MB and leaves {3:N0} MB. ' +
                'Choose another drive, or write the plan for fewer minutes.') -f
            $volume.Name, ($volume.FreeSpace / $Mebibyte), $Iotrace.TotalLimitMiB, $Iotrace.ReserveMiB)
    }
    Write-Log ('{0} has {1:N0} MB free; this plan writes {2:N0} MB at most' -f
        $volume.Name, ($volume.FreeSpace / $Mebibyte), $Iotrace.TotalLimitMiB)
}

function New-CaptureFolder {
    # Traces hold names of databases, folders and users, and a task runs the scripts from here with an administrator's
    # rights: only administrators and the system may read or change them. The folder has these rights from its first
    # moment. If somebody made one since it was looked for, nothing is created here, and its owner gives it away.
    [void] [IO.Directory]::CreateDirectory($Iotrace.Folder, (New-FolderSecurity))
    Assert-Locked $Iotrace.Folder
    Assert-LockedAbove $Iotrace.Folder
    $words = "Made by the capture plan $($Iotrace.Name). collect.ps1 packs it, uninstall.ps1 removes it.`r`n"
    [IO.File]::WriteAllText($OwnerFile, $words)
    foreach ($folder in @($FactsFolder, $StateFolder, $SqlFolder)) { [void] [IO.Directory]::CreateDirectory($folder) }
    $scripts = Join-Path $Iotrace.Folder 'scripts'
    if (Test-Path -LiteralPath $scripts) { throw "$scripts exists. Run collect.ps1, or move it away." }
    [void] [IO.Directory]::CreateDirectory($scripts, (New-FolderSecurity))
    Get-ChildItem -LiteralPath $PSScriptRoot | Where-Object { $_.Extension -eq '.ps1' -or $_.Name -eq 'sql' } |
        Copy-Item -Destination $scripts -Recurse
    Get-ChildItem -LiteralPath $scripts -Recurse -File | Unblock-File
    Assert-LockedScripts
}

function Assert-LockedScripts {
    # Before anything in them is run.
    $scripts = Join-Path $Iotrace.Folder 'scripts'
    foreach ($path in @($Iotrace.Folder, $scripts)) { Assert-Locked $path }
    foreach ($item in @(Get-ChildItem -LiteralPath $scripts -Recurse -Force)) { Assert-Locked $item.FullName }
}

function Get-SqlServer {
    # What the instance is; throws when it is not one that this plan can record.
    param($Connection)
    $about = Read-SqlRow $Connection 'check.sql'
    $version = [int] $about['major_version']
    Write-Log "SQL Server $($about['version']) on $($about['host_name'])"
    if ($version -lt 11) { throw 'SQL Server 2012 is the oldest version these scripts are written for.' }
    if ($about['host_name'] -ne $env:COMPUTERNAME) {
        throw "$($Iotrace.SqlInstance) runs on $($about['host_name']), not on this host. Run the plan there."
    }
    if ([int] $about['may_view_state'] -ne 1) {
        throw 'This login lacks VIEW SERVER STATE (from SQL Server 2022 on VIEW SERVER PERFORMANCE STATE will do).'
    }
    if ($Iotrace.SqlEvents -and [int] $about['may_alter_sessions'] -ne 1) {
        throw 'This login lacks ALTER ANY EVENT SESSION.'
    }
    if ([int] $about['sessions_of_this_name'] -ne 0) {
        throw "There is an event session named $($Iotrace.Name) already. Run uninstall.ps1 if it is this plan's."
    }
    return $about
}

function Start-SqlPart {
    param($Connection, [string] $InstanceName)
    # SQL Server writes the events itself: its service, not its account, is let into this one folder.
    $service = 'MSSQLSERVER'
    if ($InstanceName) { $service = 'MSSQL$' + $InstanceName }
    [void] (Invoke-Tool $Icacls @($SqlFolder, '/grant', "NT SERVICE\${service}:(OI)(CI)M"))
    Set-Mark 'sql'
    Invoke-SqlFile $Connection 'create-session.sql'
    Invoke-SqlFile $Connection 'start-session.sql'
    Write-Log "Extended Events session $($Iotrace.Name) is running"
}

function Start-CounterPart {
    param([string] $InstanceName)
    $list = Join-Path $Iotrace.Folder 'counters.txt'
    $paths = @(Get-CounterPaths -Path (Join-Path $PSScriptRoot 'counters.txt') -InstanceName $InstanceName)
    # In the code page of Windows, which is what logman reads.
    [IO.File]::WriteAllLines($list, [string[]] $paths, [Text.Encoding]::Default)
    Set-Mark 'counters'
    [void] (Invoke-Tool $Logman @(
            'create', 'counter', $CounterSet, '-cf', $list, '-f', $Iotrace.CounterFormat, '-si', '00:00:01',
            '-max', [string] $Iotrace.CounterLimitMiB, '-rf', $Iotrace.RunFor, '-o', $CounterFile, '-y'))
    [void] (Invoke-Tool $Logman @('start', $CounterSet))
    Write-Log "counter log $CounterSet is running: $($paths.Count) counter paths, every second"
}

function Start-KernelPart {
    # At least two buffers for each processor; more than 64 MB of them are only taken where the host has the processors.
    $buffers = [Math]::Max(64, 2 * [Environment]::ProcessorCount)
    if ($UseWpr) {
        $wpr = Join-Path $System32 'wpr.exe'
        if (-not (Test-Path -LiteralPath $wpr)) { throw 'This Windows has no wpr.exe.' }
        Set-Mark 'wpr'
        try {
            $recording = Join-Path $PSScriptRoot 'kernel.wprp'
            [void] (Invoke-Tool $wpr @('-start', $recording, '-filemode', '-recordtempto', $Iotrace.Folder))
        } catch {
            # Whatever runs now was not started here.
            Clear-Mark 'wpr'
            throw
        }
        Write-Log 'Windows Performance Recorder is running'
        return
    }
    if ($Iotrace.KernelFlags -ne 0) {
        Set-Mark 'kernel'
        [void] (Invoke-Tool $Logman @(
                'start', $KernelLogger, '-ets', '-p', 'Windows Kernel Trace', $Iotrace.KernelFlagsText, '-ct', 'perf',
                '-bs', '1024', '-nb', [string] $buffers, [string] (4 * $buffers),
                '-mode', 'Circular', '-f', 'bincirc', '-max', [string] $Iotrace.KernelLimitMiB, '-o', $KernelFile))
        Write-Log "kernel trace is running, flags $($Iotrace.KernelFlagsText)"
    }
    if ($Iotrace.StorPort) {
        # Durations 0x100000; reads, writes and flushes with their positions 0x21E00000. Which of these Windows before
        # 10.0 has is not known: all are taken there.
        $keywords, $level = '0x21F00000', '0x4'
        if ($windows.Major -lt 10) { $keywords, $level = '0xffffffffffffffff', '0xff' }
        Set-Mark 'storport'
        [void] (Invoke-Tool $Logman @(
                'start', $StorPortSession, '-ets', '-p', '{C4636A1E-7986-4646-BF10-7BC3B4A76E8E}', $keywords, $level,
                '-ct', 'perf', '-bs', '1024', '-nb', [string] ($buffers / 2), [string] (2 * $buffers),
                '-mode', 'Circular', '-f', 'bincirc', '-max', [string] $Iotrace.StorPortLimitMiB, '-o', $StorPortFile))
        Write-Log "StorPort trace $StorPortSession is running"
    }
}

function Register-WatchTask {
    # One task with two jobs: started at once it takes snapshots until the end and then stops everything; its trigger,
    # two minutes after the end, does the stopping if the first did not live to see it, after a restart of Windows too.
    param([DateTime] $Until)
    $script = Join-Path $Iotrace.Folder 'scripts\watch.ps1'
    $arguments = '-NoProfile -NonInteractive -ExecutionPolicy RemoteSigned -File "{0}"' -f $script
    $action = New-ScheduledTaskAction -Execute $PowerShellProgram -Argument $arguments
    # S4U: runs whether or not the user stays logged on, and keeps no password.
    $user = [Security.Principal.WindowsIdentity]::GetCurrent().Name
    $principal = New-ScheduledTaskPrincipal -UserId $user -LogonType S4U -RunLevel Highest
    $trigger = New-ScheduledTaskTrigger -Once -At ($Until.ToLocalTime().AddMinutes($Iotrace.MinutesAfterEnd))
    $trigger.EndBoundary = $Until.ToLocalTime().AddHours(24).ToString('s')
    $settings = New-ScheduledTaskSettingsSet -AllowStartIfOnBatteries -DontStopIfGoingOnBatteries -StartWhenAvailable `
        -MultipleInstances IgnoreNew -ExecutionTimeLimit (New-TimeSpan -Minutes ($Iotrace.Minutes + 30)) `
        -DeleteExpiredTaskAfter (New-TimeSpan -Hours 1)
    [void] (Register-ScheduledTask -TaskName $WatchTask -Action $action -Principal $principal `
            -Trigger $trigger -Settings $settings `
            -Description "Ends the recording $($Iotrace.Name). Removes itself a day later.")
    Set-Mark 'task'
}

function Start-Watch {
    Assert-LockedScripts
    Start-ScheduledTask -TaskName $WatchTask
    for ($second = 0; $second -lt 60; $second++) {
        if (Test-Mark 'watching') {
            Write-Log 'the scheduled task watches until the end; this window may be closed'
            return
        }
        Start-Sleep -Seconds 1
    }
    throw ("The scheduled task $WatchTask did not begin within a minute, or could not ask SQL Server: read " +
        "$($Iotrace.Folder)\log.txt. Run collect.ps1, then start.ps1 -Foreground and leave that window open.")
}

Assert-Elevated
# Asked of WMI: what .NET says of the version depends on the program it runs in.
$windows = [Version] (Get-CimInstance -ClassName Win32_OperatingSystem).Version
if ($windows -lt [Version] '6.3') { throw 'Windows Server 2012 R2 is the oldest version these scripts are written for.' }
Assert-NothingOfThisNameExists
Assert-Room

$connection = $null
$about = $null
$instanceName = ''
if ($Iotrace.SqlInstance) {
    $connection = Open-Sql
    $about = Get-SqlServer $connection
    if ($about['instance_name'] -isnot [DBNull]) { $instanceName = [string] $about['instance_name'] }
}
New-CaptureFolder
try {
    $until = [DateTime]::UtcNow.AddMinutes($Iotrace.Minutes).AddSeconds($Iotrace.BaselineSeconds)
    [IO.File]::WriteAllText($UntilFile, $until.ToString('o', [Globalization.CultureInfo]::InvariantCulture))
    Register-WatchTask $until
    Save-HostFacts (Join-Path $FactsFolder 'host-before.json')
    Save-VolumePaths (Join-Path $FactsFolder 'volumes-before.csv')
    if ($connection) {
        Save-SqlFacts $connection (Join-Path $FactsFolder 'sql.json')
        if ([int] $about['major_version'] -lt 12) { Set-Mark 'old-file-stats' }
    }
    Start-CounterPart $instanceName
    Write-Log "$($Iotrace.BaselineSeconds) s of counters alone, to compare with"
    Start-Sleep -Seconds $Iotrace.BaselineSeconds
    if ($Iotrace.SqlEvents) { Start-SqlPart $connection $instanceName }
    if ($Iotrace.KernelFlags -ne 0 -or $Iotrace.StorPort) { Start-KernelPart }
    if (-not $Foreground) { Start-Watch }
    Write-Log ('recording until {0:HH:mm} local time; stop.ps1 ends it sooner, collect.ps1 packs it' -f $until.ToLocalTime())
} catch {
    Write-Log "could not start: $($_.Exception.Message)"
    try { & (Join-Path $PSScriptRoot 'stop.ps1') } catch { Write-Log $_.Exception.Message }
    throw
} finally {
    if ($connection) { $connection.Dispose() }
}
if ($Foreground) { & (Join-Path $PSScriptRoot 'watch.ps1') }
