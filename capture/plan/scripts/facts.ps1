# What the host is: power plan, processors, volumes, disks, adapters, filter drivers. Nothing is changed; reading this
# file alone does nothing.

function Get-Fact {
    # Some properties of what an action finds, or why they are not known: not every host has Fibre Channel.
    param([string[]] $Properties, [scriptblock] $Action)
    try {
        return @(& $Action | Select-Object -Property $Properties)
    } catch {
        return "not available: $($_.Exception.Message)"
    }
}

function Get-ToolLines {
    param([string] $Program, [string[]] $Arguments)
    try {
        $words = Invoke-Tool (Join-Path $System32 $Program) $Arguments
        return @($words -split '\r?\n' | Where-Object { $_.Trim() })
    } catch {
        return "not available: $($_.Exception.Message)"
    }
}

function Save-HostFacts {
    param([string] $Path)
    $facts = @{}
    # Both clocks at one moment: ties the counter of the traces to UTC.
    $facts['clock'] = @{
        utc              = [DateTime]::UtcNow.ToString('o')
        ticks            = [Diagnostics.Stopwatch]::GetTimestamp()
        ticks_per_second = [Diagnostics.Stopwatch]::Frequency
    }
    $facts['windows'] = Get-Fact @(
            'Caption', 'Version', 'BuildNumber', 'OSLanguage', 'LastBootUpTime', 'TotalVisibleMemorySize'
        ) {
        Get-CimInstance Win32_OperatingSystem
    }
    $facts['computer'] = Get-Fact @(
            'Name', 'Manufacturer', 'Model', 'HypervisorPresent', 'NumberOfProcessors', 'NumberOfLogicalProcessors'
        ) {
        Get-CimInstance Win32_ComputerSystem
    }
    $facts['processors'] = Get-Fact @(
            'Name', 'NumberOfCores', 'NumberOfLogicalProcessors', 'MaxClockSpeed', 'CurrentClockSpeed'
        ) {
        Get-CimInstance Win32_Processor
    }
    # "Balanced" lowers the processors' clock and with it what one thread can read.
    $facts['power_plan'] = Get-ToolLines 'powercfg.exe' @('/getactivescheme')
    $facts['volumes'] = Get-Fact @(
            'Name', 'DeviceID', 'DriveType', 'FileSystem', 'Label', 'BlockSize', 'Capacity', 'FreeSpace', 'Compressed'
        ) {
        Get-CimInstance Win32_Volume
    }
    $facts['disks'] = Get-Fact @(
            'Number', 'FriendlyName', 'SerialNumber', 'BusType', 'Size', 'LogicalSectorSize', 'PhysicalSectorSize',
            'PartitionStyle', 'IsClustered'
        ) {
        Get-Disk
    }
    $facts['partitions'] = Get-Fact @('DiskNumber', 'PartitionNumber', 'Offset', 'Size', 'DriveLetter', 'AccessPaths') {
        Get-Partition
    }
    $facts['physical_disks'] = Get-Fact @('DeviceId', 'FriendlyName', 'MediaType', 'BusType', 'Size', 'FirmwareVersion') {
        Get-PhysicalDisk
    }
    $facts['disk_drives'] = Get-Fact @(
            'Index', 'Model', 'InterfaceType', 'SCSIPort', 'SCSIBus', 'SCSITargetId', 'SCSILogicalUnit', 'Size'
        ) {
        Get-CimInstance Win32_DiskDrive
    }
    $facts['controllers'] = Get-Fact @('Name', 'DriverName', 'Manufacturer', 'DeviceID') {
        Get-CimInstance Win32_SCSIController
    }
    $facts['storage_drivers'] = Get-Fact @('DeviceName', 'DriverVersion', 'DriverDate', 'InfName') {
        Get-CimInstance Win32_PnPSignedDriver -Filter "DeviceClass='SCSIADAPTER' OR DeviceClass='HDC'"
    }
    $facts['initiator_ports'] = Get-Fact @('NodeAddress', 'PortAddress', 'ConnectionType') {
        Get-InitiatorPort
    }
    $facts['fibre_channel'] = Get-Fact @('Manufacturer', 'Model', 'DriverVersion', 'FirmwareVersion', 'NumberOfPorts') {
        Get-CimInstance -Namespace 'root\wmi' -ClassName MSFC_FCAdapterHBAAttributes -ErrorAction Stop
    }
    $facts['multipath'] = Get-ToolLines 'mpclaim.exe' @('-s', '-d')
    # Virus scanners and backup agents sit here, between the file and the disk.
    $facts['filter_drivers'] = Get-ToolLines 'fltmc.exe' @('filters')
    $facts['ntfs_settings'] = Get-ToolLines 'fsutil.exe' @('behavior', 'query', 'DisableLastAccess')
    [IO.File]::WriteAllText($Path, (ConvertTo-Json -InputObject $facts -Depth 4), (New-Object Text.UTF8Encoding($false)))
}

function Save-VolumePaths {
    # Where users find what the kernel calls \Device\HarddiskVolume3: a drive, folders, or both. The kernel's trace, as
    # logman leaves it, knows the latter name alone.
    param([string] $Path)
    $lines = @('volume_device,volume_path')
    try {
        Add-Type -Namespace Iotrace -Name Volumes -MemberDefinition @'
[DllImport("kernel32.dll", CharSet = CharSet.Unicode, SetLastError = true)]
public static extern uint QueryDosDevice(string name, [Out] char[] target, uint length);
[DllImport("kernel32.dll", CharSet = CharSet.Unicode, SetLastError = true)]
public static extern bool GetVolumePathNamesForVolumeName(
    string volume, [Out] char[] paths, uint length, out uint needed);
'@
        $buffer = New-Object char[] 32768
        foreach ($volume in @(Get-CimInstance Win32_Volume)) {
            # \\?\Volume{...}\ is the name that both functions know it by; one wants it without what is around it.
            $name = $volume.DeviceID.Substring(4).TrimEnd('\')
            if ([Iotrace.Volumes]::QueryDosDevice($name, $buffer, $buffer.Length) -eq 0) { continue }
            $device = (New-Object string (, $buffer)).Split([char] 0)[0]
            $needed = [uint32] 0
            if (-not [Iotrace.Volumes]::GetVolumePathNamesForVolumeName(
                    $volume.DeviceID, $buffer, $buffer.Length, [ref] $needed)) { continue }
            foreach ($place in (New-Object string ($buffer, 0, [int] $needed)).Split([char] 0)) {
                if ($place) { $lines += '"{0}","{1}"' -f $device, $place }
            }
        }
    } catch {
        Write-Log "the paths of volumes are missing: $($_.Exception.Message)"
    }
    [IO.File]::WriteAllText($Path, (($lines -join "`r`n") + "`r`n"), (New-Object Text.UTF8Encoding($false)))
}

function Save-SqlFacts {
    # Every table of facts.sql; its first column names what it is about.
    param($Connection, [string] $Path)
    $facts = @{}
    foreach ($batch in (Get-SqlBatches 'facts.sql')) {
        try {
            $tables = Read-SqlBatch $Connection $batch
        } catch {
            # A view that this login may not read is no reason not to record.
            Write-Log "a fact of SQL Server is missing: $($_.Exception.Message)"
            continue
        }
        foreach ($table in $tables) {
            $names = @($table.Columns | ForEach-Object { $_.ColumnName })
            $lines = @()
            foreach ($row in $table.Rows) {
                $line = @{}
                foreach ($name in $names) { $line[$name] = Format-Cell $row[$name] }
                $lines += $line
            }
            if ($lines.Count -gt 0) { $facts[$lines[0]['fact']] = $lines }
        }
    }
    [IO.File]::WriteAllText($Path, (ConvertTo-Json -InputObject $facts -Depth 4), (New-Object Text.UTF8Encoding($false)))
}
