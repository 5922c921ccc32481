"""sqlfluff's T-SQL grammar with what it lacks: statements of Extended Events sessions, after their documented syntax.

Source: the syntax blocks of CREATE, ALTER and DROP EVENT SESSION in the documentation of SQL Server. Only forms for
sessions of the server are known here, and only what the documentation lists: anything else fails to parse.
"""

from functools import cache

import sqlfluff.dialects.dialect_tsql as tsql
from sqlfluff.core import FluffConfig
from sqlfluff.core.dialects import load_raw_dialect
from sqlfluff.core.parser import (
    BaseSegment,
    Bracketed,
    Delimited,
    Lexer,
    OneOf,
    OptionallyBracketed,
    Parser,
    Ref,
    Sequence,
    StringParser,
    WordSegment,
)

_dialect = load_raw_dialect("tsql").copy_as("tsql_with_event_sessions")


def _words(*words: str) -> Sequence:
    """Words in a row, whether or not the dialect takes them for keywords."""
    return Sequence(*(StringParser(word, WordSegment, type="keyword") for word in words))


def _name() -> Ref:
    return Ref("SingleIdentifierGrammar")


_VALUE = OptionallyBracketed(
    OneOf(Ref("NumericLiteralSegment"), Ref("QuotedLiteralSegment"), Ref("QuotedLiteralSegmentWithN"))
)
_OBJECT = Sequence(_name(), Ref("DotSegment"), _name())
_SET = Sequence(_words("SET"), Delimited(Sequence(_name(), Ref("EqualsSegment"), _VALUE)))
_LEAF = Sequence(_name(), Ref("ComparisonOperatorGrammar"), _VALUE)


class EventPredicateSegment(BaseSegment):
    """<predicate_expression>: comparisons and brackets, joined by AND and OR."""

    type = "event_predicate"
    match_grammar = Delimited(
        OneOf(_LEAF, Bracketed(Ref("EventPredicateSegment"))), delimiter=OneOf(_words("AND"), _words("OR"))
    )


_ADD_EVENT = Sequence(
    _words("ADD", "EVENT"),
    _OBJECT,
    Bracketed(
        Sequence(_SET, optional=True),
        Sequence(_words("ACTION"), Bracketed(Delimited(_OBJECT)), optional=True),
        Sequence(_words("WHERE"), Ref("EventPredicateSegment"), optional=True),
        optional=True,
    ),
)
_ADD_TARGET = Sequence(_words("ADD", "TARGET"), _OBJECT, Bracketed(_SET, optional=True))


def _is(option: str, *values: object) -> Sequence:
    return Sequence(_words(option), Ref("EqualsSegment"), *values)


_NUMBER = Ref("NumericLiteralSegment")
_OPTIONS = Sequence(
    _words("WITH"),
    Bracketed(
        Delimited(
            _is("MAX_MEMORY", _NUMBER, OneOf(_words("KB"), _words("MB"), optional=True)),
            _is(
                "EVENT_RETENTION_MODE",
                OneOf(
                    _words("ALLOW_SINGLE_EVENT_LOSS"),
                    _words("ALLOW_MULTIPLE_EVENT_LOSS"),
                    _words("NO_EVENT_LOSS"),
                ),
            ),
            _is("MAX_DISPATCH_LATENCY", OneOf(Sequence(_NUMBER, _words("SECONDS")), _words("INFINITE"))),
            _is("MAX_EVENT_SIZE", _NUMBER, OneOf(_words("KB"), _words("MB"), optional=True)),
            _is("MEMORY_PARTITION_MODE", OneOf(_words("NONE"), _words("PER_NODE"), _words("PER_CPU"))),
            _is("TRACK_CAUSALITY", OneOf(_words("ON"), _words("OFF"))),
            _is("STARTUP_STATE", OneOf(_words("ON"), _words("OFF"))),
            _is(
                "MAX_DURATION",
                OneOf(
                    Sequence(
                        _NUMBER,
                        OneOf(_words("SECONDS"), _words("MINUTES"), _words("HOURS"), _words("DAYS")),
                    ),
                    _words("UNLIMITED"),
                ),
            ),
        )
    ),
)


class EventSessionStatementSegment(BaseSegment):
    """CREATE, ALTER or DROP EVENT SESSION … ON SERVER."""

    type = "event_session_statement"
    match_grammar = OneOf(
        Sequence(
            _words("CREATE", "EVENT", "SESSION"), _name(), _words("ON", "SERVER"),
            Delimited(_ADD_EVENT), Delimited(_ADD_TARGET, optional=True), Sequence(_OPTIONS, optional=True),
        ),
        Sequence(
            _words("ALTER", "EVENT", "SESSION"), _name(), _words("ON", "SERVER"),
            OneOf(
                Sequence(Delimited(_ADD_EVENT), Sequence(_OPTIONS, optional=True)),
                _OPTIONS,
                Sequence(_words("STATE"), Ref("EqualsSegment"), OneOf(_words("START"), _words("STOP"))),
            ),
        ),
        Sequence(_words("DROP", "EVENT", "SESSION"), _name(), _words("ON", "SERVER")),
    )  # fmt: skip


class StatementSegment(tsql.StatementSegment):
    """Any statement, event sessions among them."""

    match_grammar = tsql.StatementSegment.match_grammar.copy(
        insert=[Ref("EventSessionStatementSegment")], at=0
    )


_dialect.add(
    EventPredicateSegment=EventPredicateSegment, EventSessionStatementSegment=EventSessionStatementSegment
)
_dialect.replace(StatementSegment=StatementSegment)


@cache
def _config() -> FluffConfig:
    config = FluffConfig(overrides={"dialect": "tsql"})
    config._configs["core"]["dialect_obj"] = _dialect.expand()
    return config


def parse(text: str) -> BaseSegment:
    """The syntax tree of a script; raises AssertionError naming the first text that is not T-SQL."""
    config = _config()
    elements, problems = Lexer(config=config).lex(text)
    assert not problems, problems
    tree = Parser(config=config).parse(tuple(elements))
    assert tree is not None
    broken = [segment.raw for segment in tree.recursive_crawl("unparsable")]
    assert not broken, f"not T-SQL: {broken[0][:200]}"
    return tree
