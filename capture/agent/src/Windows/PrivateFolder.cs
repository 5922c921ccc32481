using System.Runtime.Versioning;
using System.Security.AccessControl;
using System.Security.Principal;

namespace Iotrace.Agent.Windows;

/// <summary>A folder for administrators, the system and its owner only: what is recorded names databases and programs.</summary>
[SupportedOSPlatform("windows")]
internal static class PrivateFolder
{
    public static void Create(string path)
    {
        var security = new DirectorySecurity();
        security.SetAccessRuleProtection(isProtected: true, preserveInheritance: false);
        foreach (var who in new[]
        {
            new SecurityIdentifier(WellKnownSidType.BuiltinAdministratorsSid, null),
            new SecurityIdentifier(WellKnownSidType.LocalSystemSid, null),
            new SecurityIdentifier(WellKnownSidType.CreatorOwnerSid, null),
        })
        {
            security.AddAccessRule(Full(who));
        }
        using var identity = WindowsIdentity.GetCurrent();
        if (identity.User is { } user)
        {
            security.AddAccessRule(Full(user));
        }
        var folder = new DirectoryInfo(path);
        if (folder.Exists)
        {
            folder.SetAccessControl(security);
        }
        else
        {
            folder.Create(security);
        }
    }

    /// <summary>Let <paramref name="account"/> write there too. Throws <see cref="AgentError"/> where Windows knows no such account.</summary>
    public static void Allow(string path, string account)
    {
        try
        {
            var folder = new DirectoryInfo(path);
            var security = folder.GetAccessControl();
            security.AddAccessRule(Full(new NTAccount(account)));
            folder.SetAccessControl(security);
        }
        catch (IdentityNotMappedException problem)
        {
            throw new AgentError($"--account '{account}' is no account that this host knows", @"write it as DOMAIN\NAME$, or NT SERVICE\iotrace-agent", problem);
        }
    }

    private static FileSystemAccessRule Full(IdentityReference who) => new(
        who, FileSystemRights.FullControl, InheritanceFlags.ContainerInherit | InheritanceFlags.ObjectInherit,
        PropagationFlags.None, AccessControlType.Allow);
}
