using System.Runtime.CompilerServices;

namespace Iotrace.Agent.Tracing;

/// <summary>
/// What a reused number meant when, from facts that arrive in order of time while it is asked for: an answer is a
/// <see cref="Span"/>, which may learn its value later. A rundown that names most things stands at the end of a trace.
/// <para>
/// Rule, the same as the reader of .etl has: the latest fact that holds from a moment at or before the one asked for, unless it is
/// known to have ended and something later says what came next; else the earliest that holds until a moment at or after.
/// </para>
/// Not safe for several threads.
/// </summary>
internal sealed class LateTimeline<T>
{
    /// <summary>I/O goes to few keys at a time: the last span of those met last, by a hash of the key.</summary>
    private const int RecentBits = 12;

    private readonly Dictionary<ulong, Spans> _keys = [];
    private readonly (ulong Key, long Since, Span? Last)[] _recent = new (ulong, long, Span?)[1 << RecentBits];

    /// <summary>How many keys are known.</summary>
    public int Count => _keys.Count;

    /// <summary>What <paramref name="key"/> means at <paramref name="ticks"/>; remembered, if nothing told of it yet.</summary>
    public Span At(ulong key, long ticks)
    {
        ref var recent = ref Recent(key);
        return recent.Key == key && recent.Since <= ticks && recent.Last is { } last ? last : Find(key, ticks, ref recent);
    }

    private ref (ulong Key, long Since, Span? Last) Recent(ulong key) =>
        ref _recent[unchecked(key * 0x9E3779B97F4A7C15) >> 64 - RecentBits];

    [MethodImpl(MethodImplOptions.NoInlining)]
    private Span Find(ulong key, long ticks, ref (ulong Key, long Since, Span? Last) recent)
    {
        if (!_keys.TryGetValue(key, out var spans))
        {
            _keys.Add(key, spans = new(new(long.MinValue)));
        }
        recent = (key, spans.Last.Since, spans.Last);
        return spans.Last.Since <= ticks ? spans.Last : spans.Before(ticks);
    }

    /// <summary>From <paramref name="ticks"/> on <paramref name="key"/> means <paramref name="value"/>.</summary>
    public void From(ulong key, long ticks, T value)
    {
        var span = new Span(ticks, isFrom: true);
        span.Learn(value);
        Recent(key) = default;
        if (_keys.TryGetValue(key, out var spans))
        {
            spans.Add(span);
        }
        else
        {
            // What was before may be told later.
            _keys.Add(key, new(span));
        }
    }

    /// <summary>Until <paramref name="ticks"/> <paramref name="key"/> meant <paramref name="value"/>.</summary>
    public void Until(ulong key, long ticks, T value)
    {
        Recent(key) = default;
        if (!_keys.TryGetValue(key, out var spans))
        {
            _keys.Add(key, spans = new(new(long.MinValue)));
        }
        spans.End(ticks, value);
    }

    /// <summary><paramref name="key"/> was seen to mean <paramref name="value"/> at <paramref name="ticks"/>, and goes on to.</summary>
    public void Seen(ulong key, long ticks, T value)
    {
        if (_keys.TryGetValue(key, out var spans) && spans.Last.Since > ticks)
        {
            return; // something later is known
        }
        Until(key, ticks, value);
        From(key, ticks == long.MaxValue ? ticks : ticks + 1, value);
    }

    /// <summary>No span has a reference any more.</summary>
    public void ForgetReferences()
    {
        foreach (var spans in _keys.Values)
        {
            spans.ForgetReferences();
        }
    }

    /// <summary>Forget what ended before <paramref name="ticks"/> and nobody waits for.</summary>
    public void Forget(long ticks)
    {
        List<ulong>? gone = null;
        foreach (var (key, spans) in _keys)
        {
            spans.Trim(ticks);
            if (spans.IsOver(ticks))
            {
                (gone ??= []).Add(key);
            }
        }
        foreach (var key in gone ?? [])
        {
            _keys.Remove(key);
        }
        if (gone is not null)
        {
            Array.Clear(_recent);
        }
    }

    /// <summary>One meaning of one key. <see cref="Reference"/> is for whoever asked: a number, or -1; so is <see cref="Referred"/>.</summary>
    internal sealed class Span(long since, bool isFrom = false)
    {
        public long Since { get; } = since;

        public int Reference { get; set; } = -1;

        public object? Referred { get; set; }

        public bool HasValue { get; private set; }

        public T Value { get; private set; } = default!;

        /// <summary>A fact began it; otherwise it is what lies before, between and after such facts.</summary>
        public bool IsFrom { get; } = isFrom;

        /// <summary>No later fact changes the value.</summary>
        public bool IsSettled { get; private set; } = isFrom;

        public void Learn(T value) => (HasValue, Value) = (true, value);

        public void Settle(T value)
        {
            Learn(value);
            IsSettled = true;
        }
    }

    private sealed class Spans(Span first)
    {
        /// <summary>In order of time, without the last.</summary>
        private List<Span>? _earlier;

        public Span Last { get; private set; } = first;

        public Span Before(long ticks)
        {
            for (var index = (_earlier?.Count ?? 0) - 1; index >= 0; index--)
            {
                if (_earlier![index].Since <= ticks)
                {
                    return _earlier[index];
                }
            }
            // Before all that is known.
            var span = new Span(long.MinValue);
            (_earlier ??= []).Insert(0, span);
            return span;
        }

        public void Add(Span span)
        {
            if (span.Since < Last.Since)
            {
                var index = _earlier?.FindLastIndex(earlier => earlier.Since <= span.Since) ?? -1;
                (_earlier ??= []).Insert(index + 1, span);
                return;
            }
            (_earlier ??= []).Add(Last);
            Last = span;
        }

        public void End(long ticks, T value)
        {
            Span? begun = null;
            foreach (var span in _earlier ?? [])
            {
                begun = Close(span, ticks, value) ?? begun;
            }
            begun = Close(Last, ticks, value) ?? begun;
            if (Last.Since > ticks || (Last.IsFrom && Last.Since == ticks) || ticks == long.MaxValue)
            {
                return;
            }
            var next = new Span(ticks + 1);
            if (begun is not null)
            {
                next.Learn(begun.Value); // the best guess, until something later tells better
            }
            Add(next);
        }

        /// <summary>Forget spans that are over since before <paramref name="ticks"/> and wait for nothing.</summary>
        public void Trim(long ticks)
        {
            while (_earlier is { Count: > 0 } && (_earlier[0].IsSettled || _earlier[0].Reference < 0)
                && (_earlier.Count > 1 ? _earlier[1] : Last).Since < ticks)
            {
                _earlier.RemoveAt(0);
            }
        }

        public void ForgetReferences()
        {
            foreach (var span in (_earlier ?? []).Append(Last))
            {
                (span.Reference, span.Referred) = (-1, null);
            }
        }

        public bool IsOver(long ticks) =>
            Last is { IsSettled: false, Reference: < 0 } && Last.Since < ticks && _earlier is not { Count: > 0 };

        /// <summary>Tell a span what held until <paramref name="ticks"/>; the span itself if a fact began it by then.</summary>
        private static Span? Close(Span span, long ticks, T value)
        {
            if (span.Since > ticks)
            {
                return null;
            }
            if (!span.IsSettled)
            {
                span.Settle(value);
            }
            return span.IsFrom ? span : null;
        }
    }
}
