"""What the search reads out of a request: the service it names, what it wants done, what it passes on, and related words."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from clicket.tool_search.index import ToolIndex


class Made(NamedTuple):
    name: str
    description: str = ""
    input_schema: Any = None


def tracker(service: str, title: str) -> list[Made]:
    return [
        Made(f"{service}_create_card", f"Create a card in {title}."),
        Made(f"{service}_list_cards", f"List the cards of {title}."),
        Made(f"{service}_delete_card", f"Delete a card from {title}."),
    ]


TWO = [*tracker("trello", "Trello"), *tracker("box", "Box"), *tracker("acme_desk", "Acme Desk")]


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Make a new card in Trello", "trello_create_card"),
        ("trello: new card", "trello_create_card"),
        ("new card on trello", "trello_create_card"),
        ("Which cards are there in Box?", "box_list_cards"),
        ("new card in box", "box_create_card"),
        ("Remove that card from Acme Desk", "acme_desk_delete_card"),
    ],
)
def test_the_tools_of_a_service_that_is_named_come_first(request_: str, name: str) -> None:
    found = ToolIndex(TWO).search(request_, limit=3)
    assert found[0] == name
    assert len({each.rpartition("_")[0].rpartition("_")[0] for each in found}) == 1


def test_a_service_that_is_named_outweighs_a_tool_with_more_of_the_words() -> None:
    tools = [*TWO, Made("refund_invoice", "Refund the payment of an invoice to a customer.")]
    request = "In Trello, note the refund of a payment of an invoice to a customer"
    assert ToolIndex(tools).search(request, limit=1) == ["trello_create_card"]


def test_an_ordinary_word_names_no_service() -> None:
    tools = [*TWO, Made("shop_order_goods", "Order goods from a shop."), Made("ship_parcel", "Send a parcel.")]
    assert ToolIndex(tools).search("order a box of goods", limit=1) == ["shop_order_goods"]
    assert ToolIndex(tools).search("Box the goods and order them", limit=1) == ["shop_order_goods"]


def test_a_service_may_be_named_by_its_title() -> None:
    tools = [
        Made(f"gcs_{verb}_blob", f"{verb.title()} a blob of Google Cloud Storage.")
        for verb in ("get", "list", "delete")
    ] + [Made(f"google_docs_{verb}_text", f"{verb.title()} text of a document.") for verb in ("get", "list", "delete")]
    assert ToolIndex(tools).search("Get the text from Google Cloud Storage", limit=1) == ["gcs_get_blob"]


@pytest.mark.parametrize(
    ("service", "request_"),
    [
        ("argocd", "Make a new card in Argo CD"),
        ("calcom", "new card for Cal.com"),
        ("bitly", "put a card on bit.ly"),
        ("home_hub", "Make a new card with homehub"),
        ("mcp__argocd_", "Make a new card in Argo CD"),
    ],
)
def test_a_service_may_be_named_in_two_words_or_in_one(service: str, request_: str) -> None:
    tools = [
        *TWO,
        *(Made(f"{service}_{verb}_card", f"{verb.title()} a card.") for verb in ("create", "list", "delete")),
    ]
    assert ToolIndex(tools).search(request_, limit=1) == [f"{service}_create_card"]


def test_words_of_two_sentences_make_no_name() -> None:
    tools = [*TWO, *(Made(f"argocd_{verb}_card", f"{verb.title()} a card.") for verb in ("create", "list", "delete"))]
    found = ToolIndex(tools).search("Make a new card in Trello about Argo. CD players are cheap.", limit=1)
    assert found == ["trello_create_card"]


def test_a_service_that_left_is_no_longer_named() -> None:
    index = ToolIndex(TWO)
    index.sync(TWO[3:])
    assert index.search("new card in Trello", limit=1)[0].endswith("_create_card")


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Which cards are there?", "list_cards"),
        ("Are there cards for Ann?", "list_cards"),
        ("Show me the cards", "list_cards"),
        ("Please add a card", "create_card"),
        ("I want a card for Ann", "create_card"),
        ("Can you erase that card?", "delete_card"),
        ("Get rid of the card", "delete_card"),
        ("Rename the card", "update_card"),
    ],
)
def test_a_tool_that_does_what_is_wanted_comes_first(request_: str, name: str) -> None:
    tools = [
        Made("delete_card", "A card that is not needed."),
        Made("create_card", "A card for a person."),
        Made("update_card", "A card and its fields."),
        Made("list_cards", "All the cards."),
    ]
    assert ToolIndex(tools).search(request_, limit=1) == [name]


def test_a_tool_that_does_something_else_loses_against_one_with_fewer_of_the_words() -> None:
    asked_for = ToolIndex([Made("delete_card", "A card of Ann."), Made("list_cards", "Cards.")])
    assert asked_for.search("Which cards are there of Ann?", limit=1) == ["list_cards"]
    erased = ToolIndex([Made("update_room_plan", "Plan of a room."), Made("delete_plan", "A plan.")])
    assert erased.search("Erase the plan of the room", limit=1) == ["delete_plan"]


@pytest.mark.parametrize(
    "request_",
    [
        'Rename the file to "refund of the invoice"',
        "Rename the file to “refund of the invoice”",
        "Rename the file: refund of the invoice",
    ],
)
def test_what_is_quoted_says_less_than_what_is_asked_for(request_: str) -> None:
    tools = [Made("refund_invoice", "Refund an invoice."), Made("rename_file", "Give a file another name.")]
    assert ToolIndex(tools).search(request_) == ["rename_file", "refund_invoice"]


def test_what_is_to_be_told_says_less_than_to_tell_it() -> None:
    tools = [Made("refund_invoice", "Refund an invoice."), Made("post_message", "Post a message to the team.")]
    assert ToolIndex(tools).search("Tell the team that the invoice was refunded", limit=1) == ["post_message"]


def test_a_request_that_is_nothing_but_a_quotation_is_searched_for() -> None:
    assert ToolIndex([Made("refund_invoice", "Refund an invoice.")]).search('"invoice"') == ["refund_invoice"]


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("remuneration of the clerk", "get_salary"),
        ("a photograph of the whale", "find_picture"),
        ("purchase a saloon", "buy_car"),
    ],
)
def test_related_words_of_general_english_are_enough(request_: str, name: str) -> None:
    tools = [
        Made("get_salary", "Wages of a person."),
        Made("find_picture", "Images of animals."),
        Made("buy_car", "Order an automobile."),
    ]
    assert ToolIndex(tools).search(request_, limit=1) == [name]


def store(service: str, title: str, *, about: str) -> list[Made]:
    return [
        Made(f"{service}_{verb}_record", f"{title}: {verb} a record{about}.") for verb in ("create", "get", "delete")
    ]


def test_a_name_that_only_one_service_has_stands_for_that_service() -> None:
    tools = [*store("firebase", "Firebase", about=" of Firestore"), *store("airtable", "Airtable", about="")]
    tools[1] = Made("firebase_get_record", "One record.")
    assert ToolIndex(tools).search("Read the Firestore record of Anna", limit=1) == ["firebase_get_record"]


def test_a_service_of_two_tools_may_be_named() -> None:
    tools = [
        Made("newrelicRunNrql", "Run a query over telemetry."),
        Made("newrelicListApplications", "Monitored applications."),
        Made("bank_average_duration", "The average duration of a transaction."),
    ]
    found = ToolIndex(tools).search("Ask New Relic: average duration of a transaction", limit=2)
    assert set(found) == {"newrelicRunNrql", "newrelicListApplications"}


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("Make an mp4 out of this mkv", "convert_video"),
        ("What is in /etc/fstab?", "read_text_file"),
        ("What does report.txt say?", "read_text_file"),
        ("Tell me more about SHOP-4F2", "get_issue"),
    ],
)
def test_what_a_request_shows_instead_of_naming_it(request_: str, name: str) -> None:
    tools = [
        Made("convert_video", "Transcode a video."),
        Made("convert_units", "Convert units."),
        Made("read_text_file", "Read a file."),
        Made("get_host", "One host of a listing."),
        Made("get_issue", "One issue."),
        Made("get_shop", "One seller."),
    ]
    assert ToolIndex(tools).search(request_, limit=1) == [name]


def test_a_part_of_a_brand_is_no_word_of_a_description() -> None:
    tools = [Made("blog_create", "Create an article in WordPress."), Made("browser_click", "Click a button.")]
    assert ToolIndex(tools).search("press the button", limit=1) == ["browser_click"]
    assert ToolIndex(tools).search("an entry for WordPress", limit=1) == ["blog_create"]


def test_the_end_of_a_domain_names_no_service() -> None:
    tools = [
        *(Made(f"monday_{verb}_item", f"monday.com: {verb} an item.") for verb in ("create", "list", "delete")),
        Made("browser_open_page", "Go to an address."),
    ]
    assert ToolIndex(tools).search("go to example.com", limit=1) == ["browser_open_page"]
    assert ToolIndex(tools).search("new item on monday.com", limit=1) == ["monday_create_item"]
