using System.Collections.Concurrent;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

namespace Iotrace.Agent.Streams;

/// <summary>
/// Replaces names by pseudonyms of the form that <c>iotrace import --anonymize</c> gives: a keyed hash of each part of a path
/// under a random key that is forgotten, so that equal names stay equal and nobody can test a guess. Drive letters, folders'
/// structure, the endings of database files and names that are the same on every system stay; command lines go.
/// </summary>
internal sealed partial class Anonymizer
{
    private static readonly HashSet<string> Endings = new(StringComparer.OrdinalIgnoreCase)
    {
        "mdf", "ndf", "ldf", "bak", "trn", "dif", "xel", "etl", "blg", "exe", "dll", "sys", "log", "txt", "csv", "zip",
    };

    private static readonly HashSet<string> Known = new(StringComparer.OrdinalIgnoreCase)
    {
        "sqlservr.exe", "sqlagent.exe", "System", "Idle", "svchost.exe", "MsMpEng.exe", "postgres", "fio", "master", "model",
        "msdb", "tempdb", "pagefile.sys", "swapfile.sys", "hiberfil.sys", "Windows", "System32", "System Volume Information", "_Total", "",
        "$Mft", "$MftMirr", "$LogFile", "$Volume", "$AttrDef", "$Bitmap", "$Boot", "$BadClus", "$Secure", "$UpCase", "$Extend",
        "$Quota", "$ObjId", "$Reparse", "$UsnJrnl", "$RmMetadata", "$Txf", "$TxfLog", "$Tops", "$Deleted", "$Recycle.Bin",
    };

    private const int RememberedMax = 1 << 16;

    private readonly byte[] _key = RandomNumberGenerator.GetBytes(32);
    private readonly ConcurrentDictionary<string, string> _remembered = new(StringComparer.OrdinalIgnoreCase);

    public string Path(string path) =>
        string.Concat(Separators().Split(path).Select(part => part.Length > 0 && part[0] is '\\' or '/' ? part : Name(part)));

    public string Name(string name)
    {
        if (Known.Contains(name) || Drive().IsMatch(name) || SystemDatabase().IsMatch(name))
        {
            return name;
        }
        if (_remembered.Count >= RememberedMax)
        {
            _remembered.Clear();
        }
        return _remembered.GetOrAdd(name, Hashed);
    }

    /// <summary>The object of a counter with the name of the instance in it replaced: <c>MSSQL$PAYROLL:Databases</c>.</summary>
    public string CounterObject(string name)
    {
        var (start, end) = (name.IndexOf('$'), name.IndexOf(':'));
        return start >= 0 && end > start + 1
            ? string.Concat(name.AsSpan(0, start + 1), Name(name[(start + 1)..end]), name.AsSpan(end))
            : name;
    }

    private string Hashed(string name)
    {
        // Windows knows names in any case, and so does the pseudonym.
        var digest = HMACSHA256.HashData(_key, Encoding.UTF8.GetBytes(name.ToLowerInvariant()));
        var hash = "n" + Convert.ToHexStringLower(digest.AsSpan(0, 5));
        var dot = name.LastIndexOf('.');
        var ending = dot >= 0 ? name[(dot + 1)..] : "";
        return Endings.Contains(ending) ? $"{hash}.{ending.ToLowerInvariant()}" : hash;
    }

    [GeneratedRegex(@"(?<separator>[\\/]+)", RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, 1000)]
    private static partial Regex Separators();

    /// <summary>Files of SQL Server's own databases: their role follows from their name.</summary>
    [GeneratedRegex(
        @"^(temp(db|dev|log)[^.]*|master|mastlog|model|modellog|msdbdata|msdblog|mssqlsystemresource)\.(mdf|ndf|ldf)$",
        RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture | RegexOptions.IgnoreCase, 1000)]
    private static partial Regex SystemDatabase();

    [GeneratedRegex(@"^([A-Za-z]:|[0-9]+( [A-Za-z]:)*|\?+|\.{1,2}|Device|HarddiskVolume[0-9]+)$", RegexOptions.CultureInvariant | RegexOptions.ExplicitCapture, 1000)]
    private static partial Regex Drive();
}
