namespace Iotrace.Agent;

/// <summary>The folder that a recording is written to: new or empty, and for administrators and its owner only.</summary>
internal static class OutputFolder
{
    /// <summary>Make <paramref name="path"/>. Throws <see cref="AgentError"/> where something is in the way.</summary>
    public static string Create(string path)
    {
        var full = Path.GetFullPath(path);
        if (File.Exists(full) || (Directory.Exists(full) && Directory.EnumerateFileSystemEntries(full).Any()))
        {
            throw new AgentError($"'{path}' is there already", "name a new folder with --output");
        }
        var parent = Path.GetDirectoryName(full);
        if (parent is not null && !Directory.Exists(parent))
        {
            throw new AgentError($"the folder '{parent}' is not there", "make it, or name another with --output");
        }
        try
        {
            if (OperatingSystem.IsWindows())
            {
                Windows.PrivateFolder.Create(full);
            }
            else
            {
                Directory.CreateDirectory(full, UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute);
            }
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            throw new AgentError(
                $"cannot write '{path}': {problem.Message.TrimEnd('.')}", "name a folder you may write to with --output", problem);
        }
        return full;
    }

    /// <summary>Make <paramref name="path"/>, or take it as it is: recordings are added to what is in it.</summary>
    public static string CreateOrOpen(string path) =>
        Directory.Exists(path) ? Path.GetFullPath(path) : Create(path);

    /// <summary>Remove what was written into a folder that <see cref="Create"/> made: its own files, and the folder if nothing else is in it.</summary>
    public static void Remove(string path)
    {
        try
        {
            foreach (var file in Directory.EnumerateFiles(path)
                         .Where(file => Path.GetFileName(file) is "manifest.json" or "manifest.json.new"
                             || file.EndsWith(".arrows", StringComparison.Ordinal)
                             || file.EndsWith(".arrows.new", StringComparison.Ordinal)))
            {
                File.Delete(file);
            }
            Directory.Delete(path);
        }
        catch (Exception problem) when (problem is IOException or UnauthorizedAccessException)
        {
            // What stays is told by the error that led here.
        }
    }
}
