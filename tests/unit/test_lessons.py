"""How lessons stand to each other: which one counts, and how many are kept."""

from ekiden.shared.lessons import MOST_OF_AGENT, MOST_OF_USER, Lesson, kept, taken_in


def lesson(text: str = "Where is my invoice?", agent: str = "billing", **fields: object) -> Lesson:
    return Lesson.model_validate({"text": text, "agent": agent, "evidence": "named", "at_ms": 10, **fields})


def known(*lessons: Lesson) -> dict[str, Lesson]:
    return {one.id: one for one in lessons}


def test_the_same_again_changes_nothing() -> None:
    before = known(lesson())

    assert taken_in(before, [lesson(), lesson(" where is  my invoice")]) == before


def test_each_user_has_his_own() -> None:
    assert len(taken_in({}, [lesson(user="ann"), lesson(user="bob")])) == 2


def test_the_users_word_replaces_what_an_answer_seemed_to_say_and_not_the_other_way_round() -> None:
    answered, named = lesson(agent="debugger", evidence="answered", at_ms=20), lesson(at_ms=30)

    assert taken_in(known(answered), [named]) == known(named)
    assert taken_in(known(named), [answered.model_copy(update={"at_ms": 40})]) == known(named)


def test_an_older_job_that_is_looked_at_later_replaces_nothing() -> None:
    before = known(lesson(at_ms=30))

    assert taken_in(before, [lesson(agent="sales", at_ms=20)]) == before


def test_what_people_decided_stands_unless_the_user_says_himself_that_it_is_anothers() -> None:
    accepted, refused = lesson(state="accepted", by="eve"), lesson(state="refused", by="eve")
    passed_on, named = lesson(agent="sales", evidence="passed_on", at_ms=20), lesson(agent="sales", at_ms=20)

    for decided in (accepted, refused):
        assert taken_in(known(decided), [lesson(at_ms=20)]) == known(decided)
        assert taken_in(known(decided), [passed_on]) == known(decided)
        assert taken_in(known(decided), [named]) == known(named)


def test_nobody_teaches_an_agent_alone_and_the_best_are_kept() -> None:
    many = [lesson(f"request number {n}", at_ms=n, user="ann") for n in range(MOST_OF_USER + 5)]
    weak = lesson("another one", evidence="answered", at_ms=1_000, user="ann")

    found = kept([weak, *many])

    assert [one.at_ms for one in found.values()] == list(range(MOST_OF_USER + 4, 4, -1))
    assert kept([*many, lesson("of bob", user="bob"), lesson("of sales", agent="sales", user="ann")]).keys() > set()
    crowd = [lesson(f"of {n}", user=f"user {n}") for n in range(MOST_OF_AGENT + 5)]
    assert len(kept(crowd)) == MOST_OF_AGENT


def test_what_was_refused_takes_no_room_from_what_counts() -> None:
    refused = [lesson(f"refused {n}", state="refused", user="ann") for n in range(MOST_OF_USER + 5)]
    others = [lesson(f"request {n}", user="ann") for n in range(MOST_OF_USER)]

    found = kept([*refused, *others])

    assert sum(one.state == "refused" for one in found.values()) == MOST_OF_USER
    assert len(found) == 2 * MOST_OF_USER
