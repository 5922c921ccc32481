<#
.SYNOPSIS
    Stops everything that start.ps1 started and is still running. May be run at any time and again.
.PARAMETER FromWatch
    Given by watch.ps1: the scheduled task that runs it is left to end by itself.
#>
#Requires -Version 4.0
[CmdletBinding()]
param([switch] $FromWatch)

# {{ own folder }}

. (Join-Path $PSScriptRoot 'common.ps1')
. (Join-Path $PSScriptRoot 'sql.ps1')

$script:failures = @()

function Stop-Part {
    # One part that cannot be stopped must not keep the others running.
    param([string] $Mark, [scriptblock] $Action)
    if (-not (Test-Mark $Mark)) { return }
    try {
        & $Action
        Clear-Mark $Mark
    } catch {
        $script:failures += "${Mark}: $($_.Exception.Message)"
        Write-Log "could not stop ${Mark}: $($_.Exception.Message)"
    }
}

Assert-Elevated
Assert-OwnFolder
if (-not (Test-Path -LiteralPath $StateFolder)) { Write-Host 'nothing was started'; return }

if (-not $FromWatch) {
    Stop-Part 'task' {
        if (Get-ScheduledTask -TaskName $WatchTask -ErrorAction SilentlyContinue) {
            Stop-ScheduledTask -TaskName $WatchTask
            Unregister-ScheduledTask -TaskName $WatchTask -Confirm:$false
        }
    }
}

Stop-Part 'kernel' {
    if (Test-OwnKernelSession) {
        $words = Invoke-Tool $Logman @('query', $KernelLogger, '-ets')
        [IO.File]::WriteAllText((Join-Path $FactsFolder 'kernel-session.txt'), $words)
        # Stopping writes the names of all open files. A session that is killed instead leaves a trace without them.
        [void] (Invoke-Tool $Logman @('stop', $KernelLogger, '-ets'))
        Write-Log 'kernel trace stopped'
    } else {
        Write-Log 'the kernel trace had ended already; a session of another program is left alone'
    }
}

Stop-Part 'storport' {
    if (Test-Tool $Logman @('query', $StorPortSession, '-ets')) {
        $words = Invoke-Tool $Logman @('query', $StorPortSession, '-ets')
        [IO.File]::WriteAllText((Join-Path $FactsFolder 'storport-session.txt'), $words)
        [void] (Invoke-Tool $Logman @('stop', $StorPortSession, '-ets'))
    }
    Write-Log 'StorPort trace stopped'
}

Stop-Part 'wpr' {
    try {
        [void] (Invoke-Tool (Join-Path $System32 'wpr.exe') @('-stop', $KernelFile))
        Write-Log 'Windows Performance Recorder stopped'
    } catch {
        # 0xC5583000: it records nothing, as after a restart of Windows. Then there is nothing to stop, now or later.
        if ($_.Exception.Message -notmatch 'status -984076288:') { throw }
        Write-Log 'Windows Performance Recorder had ended already, and kept no trace'
    }
}

Stop-Part 'counters' {
    # It may have reached its own end, which is no failure; whether it still runs, its words tell in one language only.
    [void] (Test-Tool $Logman @('stop', $CounterSet))
    Write-Log 'counter log stopped'
}

Stop-Part 'sql' {
    $connection = Open-Sql
    try {
        $tables = Read-SqlTables $connection 'session-losses.sql'
        Add-Snapshot $tables[0] (Join-Path $FactsFolder 'session-losses.txt')
        Invoke-SqlFile $connection 'stop-session.sql'
    } finally {
        $connection.Dispose()
    }
    Write-Log 'Extended Events session stopped'
}

if ($script:failures.Count -gt 0) { throw ('Still running: ' + ($script:failures -join '; ')) }
Write-Log 'everything is stopped'
