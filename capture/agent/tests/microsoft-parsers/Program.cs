using System.Management.Automation.Language;
using System.Runtime.Loader;
using System.Text.Json;
using Microsoft.SqlServer.TransactSql.ScriptDom;

namespace Iotrace.MicrosoftParsers;

/// <summary>
/// What Microsoft's own parsers say of scripts: <c>microsoft-parsers FILE…</c>, .ps1 for PowerShell's and .sql for those of
/// SQL Server 2012 to 2025. One JSON object a line for every error, then one that tells what was parsed. Nothing is run.
/// </summary>
internal static class Program
{
    private static readonly (string Name, Func<TSqlParser> Make)[] SqlServers =
    [
        ("2012", () => new TSql110Parser(initialQuotedIdentifiers: true)),
        ("2014", () => new TSql120Parser(initialQuotedIdentifiers: true)),
        ("2016", () => new TSql130Parser(initialQuotedIdentifiers: true)),
        ("2017", () => new TSql140Parser(initialQuotedIdentifiers: true)),
        ("2019", () => new TSql150Parser(initialQuotedIdentifiers: true)),
        ("2022", () => new TSql160Parser(initialQuotedIdentifiers: true)),
        ("2025", () => new TSql170Parser(initialQuotedIdentifiers: true)),
    ];

    public static int Main(string[] paths)
    {
        // PowerShell's type names want this assembly; only its surface is needed, where a package source has no more of it.
        AssemblyLoadContext.Default.Resolving += (context, name) =>
            name.Name == "Microsoft.Management.Infrastructure"
                ? context.LoadFromAssemblyPath(Path.Combine(AppContext.BaseDirectory, "surface", name.Name + ".dll"))
                : null;
        var (parsed, statements) = (0, 0);
        foreach (var path in paths)
        {
            switch (Path.GetExtension(path).ToUpperInvariant())
            {
                case ".PS1":
                    var script = Parser.ParseFile(Path.GetFullPath(path), out _, out var problems);
                    parsed++;
                    statements += script.FindAll(ast => ast is StatementAst, searchNestedScriptBlocks: true).Count();
                    foreach (var problem in problems)
                    {
                        Tell(path, "PowerShell", problem.Extent.StartLineNumber, problem.Message);
                    }
                    break;
                case ".SQL":
                    foreach (var (name, make) in SqlServers)
                    {
                        parsed++;
                        statements += ParseSql(make(), File.ReadAllText(path), (line, message) => Tell(path, name, line, message));
                    }
                    break;
                default:
                    Console.Error.WriteLine($"error: '{path}' is neither .ps1 nor .sql");
                    return 2;
            }
        }
        Console.WriteLine(JsonSerializer.Serialize(new { parsed, statements }));
        return 0;
    }

    /// <summary>Also what is handed to EXEC as a literal. Returns the number of statements.</summary>
    private static int ParseSql(TSqlParser parser, string text, Action<int, string> tell)
    {
        using var reader = new StringReader(text);
        var fragment = parser.Parse(reader, out var errors);
        foreach (var error in errors)
        {
            tell(error.Line, error.Message);
        }
        if (fragment is not TSqlScript script)
        {
            return 0;
        }
        var literals = new ExecutedLiterals();
        script.Accept(literals);
        return script.Batches.Sum(batch => batch.Statements.Count) + literals.Texts.Sum(inner => ParseSql(parser, inner, tell));
    }

    private static void Tell(string file, string parser, int line, string message) =>
        Console.WriteLine(JsonSerializer.Serialize(new { file = Path.GetFileName(file), parser, line, message }));
}

internal sealed class ExecutedLiterals : TSqlFragmentVisitor
{
    public List<string> Texts { get; } = [];

    public override void Visit(ExecutableStringList node)
    {
        if (node.Strings.All(part => part is StringLiteral))
        {
            Texts.Add(string.Concat(node.Strings.Cast<StringLiteral>().Select(part => part.Value)));
        }
    }
}
