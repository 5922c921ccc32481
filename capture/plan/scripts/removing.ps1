# Removing what start.ps1 defined in Windows and SQL Server. Reading this file changes nothing.

function Remove-Definitions {
    # Only ever by the plan's own names, which no one else uses. What is already gone is no failure.
    if (Get-ScheduledTask -TaskName $WatchTask -ErrorAction SilentlyContinue) {
        Unregister-ScheduledTask -TaskName $WatchTask -Confirm:$false
        Write-Log "scheduled task $WatchTask removed"
    }
    if (Test-Tool $Logman @('query', $CounterSet)) {
        [void] (Invoke-Tool $Logman @('delete', $CounterSet))
        Write-Log "counter log $CounterSet removed"
    }
    if ($Iotrace.SqlInstance -and $Iotrace.SqlEvents) {
        $connection = Open-Sql
        try { Invoke-SqlFile $connection 'drop-session.sql' } finally { $connection.Dispose() }
        Write-Log "event session $($Iotrace.Name) removed"
    }
}
