namespace Iotrace.Agent.Tracing;

/// <summary>
/// Processes as they lived: a number used twice makes two. The rules are those of the reader of .etl; facts come in order
/// of time while I/Os ask.
/// </summary>
internal sealed class ProcessLives
{
    private readonly Dictionary<uint, List<Life>> _byNumber = [];
    private readonly List<Life> _told = [];
    private readonly List<Life> _untold = [];

    /// <summary>Those that events told of, in the order in which they did, then those that only I/Os named.</summary>
    public IEnumerable<Life> All => _told.Concat(_untold.Where(life => !life.IsTold));

    /// <summary>Changes whenever anything is learnt.</summary>
    public int Version { get; private set; }

    public void Learn(ProcessFact fact)
    {
        Version++;
        if (!_byNumber.TryGetValue(fact.Number, out var all))
        {
            _byNumber.Add(fact.Number, all = []);
        }
        var last = all.Count > 0 ? all[^1] : null;
        if (last is not null && last.IsSpokenOfBy(fact))
        {
            if (!last.IsTold)
            {
                _told.Add(last);
                if (fact is { Valid: Valid.From, IsReal: true })
                {
                    last.Since = fact.Ticks;
                }
            }
            last.Learn(fact);
            return;
        }
        // One that was there before anything told: since its predecessor ended, or forever.
        var since = fact is { Valid: Valid.From, IsReal: true } ? fact.Ticks
            : last is null ? long.MinValue
            : last.EndedTicks ?? fact.Ticks;
        var life = new Life(fact.Number, since);
        life.Learn(fact);
        all.Add(life);
        _told.Add(life);
    }

    /// <summary>The process that had <paramref name="number"/> at <paramref name="ticks"/>, as far as is known by now.</summary>
    public Life At(uint number, long ticks)
    {
        if (_byNumber.TryGetValue(number, out var all))
        {
            for (var index = all.Count - 1; index > 0; index--)
            {
                if (all[index].Since <= ticks)
                {
                    return all[index];
                }
            }
            return all[0]; // before the first of them there was nobody else
        }
        var life = new Life(number, long.MinValue);
        _byNumber.Add(number, [life]);
        _untold.Add(life);
        Version++;
        return life;
    }

    /// <summary>One process.</summary>
    internal sealed class Life(uint number, long since)
    {
        private ulong _key;

        public uint Number { get; } = number;

        /// <summary>From when on its number means it.</summary>
        public long Since { get; set; } = since;

        public string? Name { get; private set; }

        public uint? Parent { get; private set; }

        /// <summary>If it started during the trace.</summary>
        public long? StartedTicks { get; private set; }

        /// <summary>If it ended during the trace.</summary>
        public long? EndedTicks { get; private set; }

        /// <summary>Whether any event told of it.</summary>
        public bool IsTold { get; private set; }

        public bool IsSpokenOfBy(ProcessFact fact)
        {
            if (!IsTold)
            {
                return true;
            }
            if (fact is { Valid: Valid.From, IsReal: true })
            {
                return StartedTicks == fact.Ticks;
            }
            return _key == fact.Key && (EndedTicks is null || fact is { Valid: Valid.Until, IsReal: false });
        }

        public void Learn(ProcessFact fact)
        {
            IsTold = true;
            _key = fact.Key;
            Parent = fact.Parent;
            Name = fact.Name.Length > 0 ? fact.Name : Name;
            if (fact.IsReal)
            {
                StartedTicks = fact.Valid == Valid.From ? fact.Ticks : StartedTicks;
                EndedTicks = fact.Valid == Valid.Until ? fact.Ticks : EndedTicks;
            }
        }
    }
}
