using Iotrace.Agent.Commands;
using Xunit;

namespace Iotrace.Agent.Tests;

public class ScreenRolesTests
{
    /// <summary>The lines that the import's rule is held to as well.</summary>
    public static TheoryData<string> Lines => [.. File.ReadAllLines(Repository.File("tests/fixtures/roles/windows.tsv"))];

    [Theory]
    [MemberData(nameof(Lines))]
    public void A_file_has_the_role_that_the_import_gives_it(string line)
    {
        var (path, role) = (line.Split('\t')[0], line.Split('\t')[1]);
        Assert.Equal(role.Replace('_', ' '), ScreenRoles.Of(path));
    }

    [Fact]
    public void A_file_that_is_not_named_yet_is_not_known() => Assert.Equal("not known", ScreenRoles.Of(null));
}
