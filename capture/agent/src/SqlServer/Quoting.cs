namespace Iotrace.Agent.SqlServer;

/// <summary>Foreign words as T-SQL, so that none of them is ever read as code.</summary>
internal static class Quoting
{
    /// <summary>A delimited identifier.</summary>
    public static string Identifier(string name) => "[" + name.Replace("]", "]]", StringComparison.Ordinal) + "]";

    /// <summary>A Unicode string literal.</summary>
    public static string Literal(string text) => "N'" + text.Replace("'", "''", StringComparison.Ordinal) + "'";
}
