# Removing what start.ps1 defined in Windows and SQL Server. Reading this file changes nothing.

function Remove-Tree {
    # Deletes a folder and what is in it; a link in it is deleted as a link. The service of SQL Server may make links in
    # its folder, and PowerShell's own -Recurse follows them.
    param([string] $Path)
    if (Test-Link $Path) {
        [IO.Directory]::Delete($Path, $false)
        return
    }
    # Only an empty folder can be made a link: while this file is open, the folder stays what it is.
    $name = Join-Path $Path ([IO.Path]::GetRandomFileName())
    $held = New-Object IO.FileStream($name, [IO.FileMode]::CreateNew, [IO.FileAccess]::Write, [IO.FileShare]::None, 1,
        [IO.FileOptions]::DeleteOnClose)
    try {
        if (Test-Link $Path) { throw "$Path was made a link while it was being deleted. Look at who did that; run this again." }
        foreach ($file in [IO.Directory]::GetFiles($Path)) {
            if ($file -eq $name) { continue }
            # Of a link only the link is deleted. Files that are read-only would stay.
            if (-not (Test-Link $file)) { [IO.File]::SetAttributes($file, [IO.FileAttributes]::Normal) }
            [IO.File]::Delete($file)
        }
        foreach ($folder in [IO.Directory]::GetDirectories($Path)) { Remove-Tree $folder }
    } finally {
        $held.Dispose()
    }
    [IO.Directory]::Delete($Path, $false)
}

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
