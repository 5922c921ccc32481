# Asking SQL Server, as the Windows user who runs the script. Reading this file changes nothing.

function Open-Sql {
    $builder = New-Object System.Data.SqlClient.SqlConnectionStringBuilder
    $builder['Data Source'] = $Iotrace.SqlInstance
    $builder['Initial Catalog'] = 'master'
    $builder['Integrated Security'] = $true
    $builder['Application Name'] = $Iotrace.Name
    $builder['Connect Timeout'] = 15
    $builder['Pooling'] = $false
    $connection = New-Object System.Data.SqlClient.SqlConnection($builder.ConnectionString)
    try {
        $connection.Open()
    } catch {
        $connection.Dispose()
        throw "$($Iotrace.SqlInstance) lets nobody in: $($_.Exception.GetBaseException().Message) Run this again once it does."
    }
    return $connection
}

function Get-SqlBatches {
    # The batches of a .sql file, which GO on a line of its own separates.
    param([string] $Name)
    $text = [IO.File]::ReadAllText((Join-Path $PSScriptRoot "sql\$Name"))
    return @([regex]::Split($text, '(?im)^[ \t]*GO[ \t]*\r?$') | Where-Object { $_.Trim() })
}

function Invoke-SqlFile {
    param($Connection, [string] $Name)
    foreach ($batch in (Get-SqlBatches $Name)) {
        $command = $Connection.CreateCommand()
        $command.CommandText = $batch
        $command.CommandTimeout = 120
        [void] $command.ExecuteNonQuery()
        $command.Dispose()
    }
}

function Read-SqlBatch {
    # All tables that a batch returns.
    param($Connection, [string] $Batch)
    $tables = @()
    $command = $Connection.CreateCommand()
    $command.CommandText = $Batch
    $command.CommandTimeout = 60
    $adapter = New-Object System.Data.SqlClient.SqlDataAdapter($command)
    $set = New-Object System.Data.DataSet
    [void] $adapter.Fill($set)
    foreach ($table in $set.Tables) { $tables += , $table }
    $adapter.Dispose()
    $command.Dispose()
    return , $tables
}

function Read-SqlTables {
    # All tables that a .sql file returns.
    param($Connection, [string] $Name)
    $tables = @()
    foreach ($batch in (Get-SqlBatches $Name)) {
        $found = Read-SqlBatch $Connection $batch
        $tables += $found
    }
    return , $tables
}

function Read-SqlRow {
    # The first row of the first table that a .sql file returns.
    param($Connection, [string] $Name)
    $tables = Read-SqlTables $Connection $Name
    return $tables[0].Rows[0]
}

function Format-Cell {
    # A value as text that does not depend on the language of Windows. Line breaks would break the line in two.
    param($Value)
    if ($null -eq $Value -or $Value -is [DBNull]) { return '' }
    $text = [Convert]::ToString($Value, [Globalization.CultureInfo]::InvariantCulture)
    return ($text -replace '[\r\n]+', ' ')
}

function Add-Snapshot {
    # Appends a table to a CSV file, with a header where the file is new.
    param($Table, [string] $Path)
    $lines = New-Object Text.StringBuilder
    $names = @($Table.Columns | ForEach-Object { $_.ColumnName })
    if (-not (Test-Path -LiteralPath $Path)) { [void] $lines.Append(($names -join ',') + "`r`n") }
    foreach ($row in $Table.Rows) {
        $cells = @($names | ForEach-Object { '"' + (Format-Cell $row[$_]).Replace('"', '""') + '"' })
        [void] $lines.Append(($cells -join ',') + "`r`n")
    }
    [IO.File]::AppendAllText($Path, $lines.ToString(), (New-Object Text.UTF8Encoding($false)))
}
