// The public surface of Microsoft's XELite as far as the agent calls it, for builds where a package source lacks it. Nothing
// of it runs: the runtime refuses to load a reference assembly, so it can be taken for the real one by nobody.
[assembly: System.Runtime.CompilerServices.ReferenceAssembly]

namespace Microsoft.SqlServer.XEvent.XELite;

public interface IXEvent
{
    string Name { get; }

    Guid UUID { get; }

    DateTimeOffset Timestamp { get; }

    IReadOnlyDictionary<string, object> Fields { get; }

    IReadOnlyDictionary<string, object> Actions { get; }
}

public delegate Task HandleMetadata();

public delegate Task HandleXEvent(IXEvent xevent);

public interface IXEventFetcher
{
    Task ReadEventStream(HandleXEvent eventCallback, CancellationToken cancellationToken);

    Task ReadEventStream(HandleMetadata metadataCallback, HandleXEvent eventCallback, CancellationToken cancellationToken);
}

public class XEFileEventStreamer : IXEventFetcher
{
    public XEFileEventStreamer(string fileName) => throw new NotSupportedException();

    public XEFileEventStreamer(Stream stream) => throw new NotSupportedException();

    public Task ReadEventStream(HandleXEvent eventCallback, CancellationToken cancellationToken) => throw new NotSupportedException();

    public Task ReadEventStream(HandleMetadata metadataCallback, HandleXEvent eventCallback, CancellationToken cancellationToken) =>
        throw new NotSupportedException();
}

public class XELiveEventStreamer : IXEventFetcher
{
    public XELiveEventStreamer(string connectionString, string sessionName) => throw new NotSupportedException();

    public Task ReadEventStream(HandleXEvent eventCallback, CancellationToken cancellationToken) => throw new NotSupportedException();

    public Task ReadEventStream(HandleMetadata metadataCallback, HandleXEvent eventCallback, CancellationToken cancellationToken) =>
        throw new NotSupportedException();
}
