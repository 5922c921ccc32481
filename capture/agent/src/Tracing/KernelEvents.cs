using Microsoft.Diagnostics.Tracing;
using Microsoft.Diagnostics.Tracing.Parsers;

namespace Iotrace.Agent.Tracing;

/// <summary>
/// Hands the events of a TraceEvent source to a <see cref="TraceRecorder"/>, as payloads and raw ticks: neither the library's
/// computed times nor its path mapping is used. No exception escapes a callback.
/// </summary>
internal sealed unsafe class KernelEvents
{
    private readonly TraceRecorder _recorder;

    public KernelEvents(TraceEventDispatcher source, TraceRecorder recorder)
    {
        _recorder = recorder;
        // No tables of the library's own: they grow without limit.
        var kernel = new KernelTraceEventParser(source, KernelTraceEventParser.ParserTrackingOptions.None);
        kernel.DiskIORead += data => Transfer(data, Op.Read);
        kernel.DiskIOWrite += data => Transfer(data, Op.Write);
        kernel.DiskIOFlushBuffers += data =>
            Guarded(data, static (recorder, data) => recorder.Flush(
                Payload(data), data.Version, data.PointerSize, Ticks(data), HeaderThread(data)));
        kernel.DiskIOReadInit += data => Start(data, Op.Read);
        kernel.DiskIOWriteInit += data => Start(data, Op.Write);
        kernel.DiskIOFlushInit += data => Start(data, Op.Flush);
        kernel.FileIOName += data => FileName(data, Valid.From);
        kernel.FileIOFileCreate += data => FileName(data, Valid.From);
        kernel.FileIOFileDelete += data => FileName(data, Valid.Until);
        kernel.FileIOFileRundown += data => FileName(data, Valid.Until);
        kernel.ThreadStart += data => Thread(data, Valid.From);
        kernel.ThreadDCStart += data => Thread(data, Valid.From);
        kernel.ThreadStop += data => Thread(data, Valid.Until);
        kernel.ThreadDCStop += data => Thread(data, Valid.Until);
        kernel.ProcessStart += data => Process(data, Valid.From, isReal: true);
        kernel.ProcessDCStart += data => Process(data, Valid.From, isReal: false);
        kernel.ProcessStop += data => Process(data, Valid.Until, isReal: true);
        kernel.ProcessDCStop += data => Process(data, Valid.Until, isReal: false);
        kernel.SystemConfigPhyDisk += data => Guarded(data, static (recorder, data) => recorder.PhysicalDisk(Payload(data)));
        kernel.SystemConfigLogDisk += data => Guarded(data, static (recorder, data) => recorder.Partition(Payload(data)));
        kernel.SysConfigVolumeMapping += data =>
            Guarded(data, static (recorder, data) => recorder.VolumeMapping(Payload(data)));
        kernel.FileIORead += Operation;
        kernel.FileIOWrite += Operation;
        kernel.FileIOFlush += Operation;
        kernel.FileIOCreate += Operation;
        kernel.FileIOCleanup += Operation;
        kernel.FileIOClose += Operation;
        kernel.FileIOSetInfo += Operation;
        kernel.FileIODelete += Operation;
        kernel.FileIORename += Operation;
        kernel.FileIOQueryInfo += Operation;
        kernel.FileIOFSControl += Operation;
        kernel.FileIOOperationEnd += data =>
            Guarded(data, static (recorder, data) => recorder.FileOperationEnd(
                Payload(data), data.Version, data.PointerSize, Ticks(data)));
        source.UnhandledEvents += Unhandled;
    }

    /// <summary>Names of files that a session lists, and nothing else.</summary>
    public static void ListNames(TraceEventDispatcher source, TraceRecorder recorder)
    {
        var kernel = new KernelTraceEventParser(source, KernelTraceEventParser.ParserTrackingOptions.None);
        kernel.FileIOFileRundown += List;
        kernel.FileIOName += List;

        void List(TraceEvent data) =>
            recorder.ListedName(Payload(data), data.PointerSize, Ticks(data));
    }

    public static ReadOnlySpan<byte> Payload(TraceEvent data) => new((void*)data.DataStart, Math.Max(data.EventDataLength, 0));

    /// <summary>Raw ticks: the library discourages them in favour of milliseconds, which are not exact.</summary>
#pragma warning disable CS0618
    private static long Ticks(TraceEvent data) => data.TimeStampQPC;
#pragma warning restore CS0618

    private static uint HeaderThread(TraceEvent data) => unchecked((uint)data.ThreadID);

    private void Transfer(TraceEvent data, Op op)
    {
        try
        {
            _recorder.Transfer(Payload(data), data.Version, data.PointerSize, Ticks(data), HeaderThread(data), op);
        }
#pragma warning disable CA1031 // see Defect
        catch (Exception problem)
#pragma warning restore CA1031
        {
            Defect(problem);
        }
    }

    private void Start(TraceEvent data, Op op) =>
        Guarded(data, (recorder, data) => recorder.Start(
            Payload(data), data.Version, data.PointerSize, Ticks(data), HeaderThread(data), op));

    private void FileName(TraceEvent data, Valid valid) =>
        Guarded(data, (recorder, data) => recorder.FileName(Payload(data), data.PointerSize, Ticks(data), valid));

    private void Thread(TraceEvent data, Valid valid) =>
        Guarded(data, (recorder, data) =>
        {
            // From version 2 on the library swaps the ids of the new thread with those of its creator: the header has ours.
            if (data.Version >= 2 && data.EventDataLength >= 8)
            {
                recorder.Thread(HeaderThread(data), unchecked((uint)data.ProcessID), Ticks(data), valid);
            }
            else
            {
                recorder.Thread(Payload(data), data.Version, Ticks(data), valid);
            }
        });

    private void Process(TraceEvent data, Valid valid, bool isReal) =>
        Guarded(data, (recorder, data) => recorder.Process(
            Payload(data), data.Version, data.PointerSize, Ticks(data), valid, isReal));

    private void Operation(TraceEvent data) =>
        Guarded(data, static (recorder, data) => recorder.FileOperation(
            Payload(data), (int)data.Opcode, data.Version, data.PointerSize, Ticks(data),
            unchecked((uint)data.ProcessID)));

    private void Unhandled(TraceEvent data)
    {
        if (data.ProviderGuid == PortEventDecoder.Provider
            && (int)data.ID is PortEventDecoder.TimedInDevice or PortEventDecoder.TimedInStack)
        {
            Guarded(data, static (recorder, data) => recorder.PortRequest(
                Payload(data), (int)data.ID, data.Version, data.PointerSize, Ticks(data)));
        }
    }

    private void Guarded(TraceEvent data, Action<TraceRecorder, TraceEvent> take)
    {
        try
        {
            take(_recorder, data);
        }
#pragma warning disable CA1031 // see Defect
        catch (Exception problem)
#pragma warning restore CA1031
        {
            Defect(problem);
        }
    }

    /// <summary>An exception would end the session's thread and with it the recording: it is counted, and told at the end.</summary>
    private void Defect(Exception problem)
    {
        lock (_recorder.Gate)
        {
            _recorder.Counts.Defects++;
            _recorder.FirstDefect ??= problem.ToString();
        }
    }
}
