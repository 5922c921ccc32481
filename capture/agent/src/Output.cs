using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Nodes;

namespace Iotrace.Agent;

/// <summary>Where words and data go: answers and JSON to standard output, everything said along the way to standard error.</summary>
internal sealed class Output(TextWriter data, TextWriter words)
{
    private static readonly JsonSerializerOptions Indented =
        new() { WriteIndented = true, Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    private static readonly JsonSerializerOptions OneLine = new() { Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    public static Output Console { get; } = new(System.Console.Out, System.Console.Error);

    /// <summary>Whether standard error is a screen, on which a line may be written over.</summary>
    public bool IsScreen { get; init; }

    public void Json(JsonNode value) => data.WriteLine(value.ToJsonString(Indented));

    public void JsonLine(JsonNode value)
    {
        data.WriteLine(value.ToJsonString(OneLine));
        data.Flush();
    }

    public void Line(string text = "") => data.WriteLine(Printable(text));

    /// <summary>A screenful, in place of the last one.</summary>
    public void Screen(string text)
    {
        data.Write(text);
        data.Flush();
    }

    public void Say(string text) => words.WriteLine(Printable(text));

    public void Warn(string text) => words.WriteLine("warning: " + Printable(text));

    /// <summary>A line that the next one of its kind replaces on a screen; nothing elsewhere.</summary>
    public void Progress(string text)
    {
        if (IsScreen)
        {
            words.Write("\r" + Printable(text).PadRight(110)[..110]);
        }
    }

    /// <summary>End a line of <see cref="Progress"/>.</summary>
    public void ProgressDone()
    {
        if (IsScreen)
        {
            words.WriteLine();
        }
    }

    public void Fail(string message, string hint)
    {
        words.WriteLine("error: " + Printable(message));
        if (hint.Length > 0)
        {
            words.WriteLine();
            words.WriteLine("hint: " + Printable(hint));
        }
    }

    /// <summary>Replace what could drive the terminal or begin a line that only looks like ours.</summary>
    public static string Printable(string text) =>
        text.Any(char.IsControl) ? string.Concat(text.Select(sign => char.IsControl(sign) ? '\uFFFD' : sign)) : text;
}
