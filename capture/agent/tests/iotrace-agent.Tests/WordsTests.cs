using CsCheck;
using Iotrace.Agent.Commands;
using Iotrace.Agent.SqlServer;
using Iotrace.Agent.Tests.Fakes;
using Xunit;

namespace Iotrace.Agent.Tests;

public class WordsTests
{
    [Theory]
    [InlineData("30m", 1800)]
    [InlineData("1h30m", 5400)]
    [InlineData("90s", 90)]
    [InlineData("500ms", 0.5)]
    public void Times_are_read_as_they_are_written(string text, double seconds)
    {
        Assert.True(Durations.TryParse(text, out var duration));
        Assert.Equal(seconds, duration.TotalSeconds, 6);
    }

    [Theory]
    [InlineData("30")]
    [InlineData("")]
    [InlineData("-5m")]
    [InlineData("m")]
    [InlineData("0s")]
    public void A_time_needs_its_unit(string text) =>
        Assert.Contains($"'{text}'", Assert.Throws<AgentError>(() => Durations.Parse(text, "--for")).Message, StringComparison.Ordinal);

    [Theory]
    [InlineData("block,nonsense", "nonsense")]
    [InlineData("sql", "server")]
    [InlineData("counters", "no layer of I/O")]
    public void Layers_that_cannot_be_are_refused(string text, string word) =>
        Assert.Contains(word, Assert.Throws<AgentError>(() => LayerChoice.Parse(text, null)).Message, StringComparison.Ordinal);

    /// <summary>Split as the C library does, the words come back.</summary>
    [Fact]
    public void The_services_command_line_says_the_same_words() =>
        Gen.OneOf(Gen.Char[' ', '~'], Gen.Int[0, 2].Select(number => "\"\\ "[number])).Array[0, 12].Sample(signs =>
        {
            var word = new string(signs);
            return Split(ServiceCommand.Quoted(word)) == word;
        });

    private static string Split(string quoted)
    {
        var text = new System.Text.StringBuilder();
        for (var at = 1; at < quoted.Length; at++)
        {
            var slashes = 0;
            for (; at < quoted.Length && quoted[at] == '\\'; at++)
            {
                slashes++;
            }
            if (at < quoted.Length && quoted[at] == '"')
            {
                text.Append('\\', slashes / 2);
                if (slashes % 2 == 0)
                {
                    Assert.Equal(quoted.Length - 1, at);
                    return text.ToString();
                }
                text.Append('"');
                continue;
            }
            text.Append('\\', slashes);
            if (at < quoted.Length)
            {
                text.Append(quoted[at]);
            }
        }
        throw new FormatException(quoted);
    }

    [Fact]
    public void Foreign_words_stay_words_in_a_statement()
    {
        var statement = SessionStatements.Create("a]b", "C:\\it's\\x.xel", new(new HashSet<string> { "file_read_completed" }, new HashSet<string>(), []));
        Assert.Contains("[a]]b]", statement, StringComparison.Ordinal);
        Assert.Contains("N'C:\\it''s\\x.xel'", statement, StringComparison.Ordinal);
        Assert.DoesNotContain("file_write_completed", statement, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(new[] { "record" }, 2, "--output")]
    [InlineData(new[] { "nonsense" }, 2, "nonsense")]
    [InlineData(new[] { "convert", "missing.btl", "--output", "x" }, 2, "'missing.btl' is not there")]
    [InlineData(new[] { "record", "--output", "x", "--for", "soon" }, 2, "--for 'soon'")]
    public void Wrong_use_is_one_sentence_and_status_2(string[] arguments, int status, string word)
    {
        using var scratch = new Scratch();
        Assert.Equal(status, Program.Run(arguments, scratch.Output));
        Assert.StartsWith("error: ", scratch.Words, StringComparison.Ordinal);
        Assert.Contains(word, scratch.Words, StringComparison.Ordinal);
    }

    [Fact]
    public void Off_Windows_record_and_etl_say_what_to_use()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "this is Windows");
        using var scratch = new Scratch();
        File.WriteAllText(scratch.In("a.etl"), "");
        Assert.Equal(2, Program.Run(["convert", scratch.In("a.etl"), "--output", scratch.In("o")], scratch.Output));
        Assert.Contains("iotrace import", scratch.Words, StringComparison.Ordinal);
        Assert.Equal(2, Program.Run(["record", "--output", scratch.In("o")], scratch.Output));
        Assert.Contains("iotrace capture linux", scratch.Words, StringComparison.Ordinal);
        Assert.False(Directory.Exists(scratch.In("o")));
    }
}
