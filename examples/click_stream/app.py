"""Enriches page views with the viewer's profile, and with what the viewer searched for just then.

A table is looked up as it is when a view comes; a search within a second of the view is met by a
join of two streams. A view without either keeps its place, with nothing in theirs.
"""

from datetime import timedelta
from typing import Any

from headwater import JoinWindows, Serdes, StreamsBuilder

VIEWS = "page-views"
PROFILES = "user-profiles"
SEARCHES = "searches"
ACTIVITIES = "user-activities"
SAME_TIME = JoinWindows.of_time_difference_with_no_grace(timedelta(seconds=1))


def build(builder: StreamsBuilder) -> None:
    """Join views with profiles, then with searches; all topics are keyed by user."""
    text, json = Serdes.string, Serdes.json
    views = builder.stream(VIEWS, key_serde=text, value_serde=json)
    profiles = builder.table(PROFILES, key_serde=text, value_serde=json, store="profiles")
    searches = builder.stream(SEARCHES, key_serde=text, value_serde=json)
    (
        views.left_join(profiles, with_profile)
        .left_join(
            searches,
            with_search,
            SAME_TIME,
            name="same-time",
            store="same-time",
            key_serde=text,
            value_serde=json,
            other_value_serde=json,
        )
        .to(ACTIVITIES, key_serde=text, value_serde=json)
    )


def with_profile(view: dict[str, Any], profile: dict[str, Any] | None) -> dict[str, Any]:
    """Add name and interests of the viewer, if there is a profile."""
    known = profile or {}
    return {**view, "name": known.get("name"), "interests": known.get("interests", [])}


def with_search(activity: dict[str, Any], search: dict[str, Any] | None) -> dict[str, Any]:
    """Add what was searched for, if anything was."""
    return {**activity, "search": None if search is None else search["terms"]}
