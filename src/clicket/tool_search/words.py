"""The terms by which tools and requests are compared: identifiers are split into words, and words are folded and stemmed.

A request uses other words than a description: `variants` gives words of one meaning, and `PHRASES` turns of speech that stand for one
word. Both are general English of people who ask for something, and of the services that tools are made for; no tool's name is needed
to write them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from clicket.search.text.terms import fold, stem, terms

__all__ = ["plain_terms", "request_terms", "spellings", "variants"]

_LONGEST = 40
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SIGNS = re.compile(r"[\W_]+")
_BY_PHRASE = 0.6
_GLUE = frozenset("a an the of to in at by for from with as and or it its is are be that this which".split())
"""Words of a description that say nothing about a tool."""
_NOISE = frozenset(
    """a an the of to in into on at by for from with as and or but if so than then that this these those there here it its he she his her
    him they them their we us our ours you your i me my mine myself yourself is are was were be been being am do does did done doing have
    has had having will would shall should can could may might must not no nor don doesn didn isn wasn won t s re ve ll d m please just
    also too very really any some such only own same other another both each every what which how why when where who whom whose
    want wants wanted need needs needed like let lets help could ask tell please thanks thank hi hello hey okay ok now soon really
    about after again all before between during more most off once out over through under until up down while because got get gets
    im ive id youre thats whats one thing things something anything somebody someone anybody everybody people bit lot""".split()
)
"""Words of a request that say nothing about a tool. Some of them mean something within a phrase; see `PHRASES`."""

# Turns of speech, as patterns over folded text, and the words that they stand for.
PHRASES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"\b(?:{pattern})\b"), words)
    for pattern, words in (
        (r"get rid of|throw away|do away with|take (?:it |them )?down", " delete remove "),
        (r"throw (?:\w+ ){0,3}out|kick (?:\w+ ){0,2}out", " ban remove kick "),
        (r"turn (?:\w+ ){0,3}off|switch (?:\w+ ){0,3}off|shut down", " off stop disable "),
        (r"turn (?:\w+ ){0,3}on|switch (?:\w+ ){0,3}on", " on start enable "),
        (r"turn (?:\w+ ){0,2}down", " decline reject "),
        (r"turn (?:\w+ ){0,4}into", " convert export "),
        (r"set (?:\w+ ){0,3}up|spin up|bring up", " create start schedule "),
        (r"look (?:\w+ ){0,2}over", " review "),
        (r"look (?:\w+ ){0,2}up|dig (?:\w+ ){0,2}up|look for", " search find lookup "),
        (r"write (?:\w+ ){0,2}down|write (?:\w+ ){0,2}up|put (?:\w+ ){0,2}down", " create note "),
        (
            r"tick (?:\w+ ){0,2}off|check (?:\w+ ){0,2}off|cross (?:\w+ ){0,2}off|mark (?:\w+ ){0,3}done|to tick off",
            " complete close checklist ",
        ),
        (r"call (?:it |\w+ )?off", " cancel "),
        (r"sign (?:\w+ ){0,2}up|opt in", " subscribe register "),
        (r"(?:doesn t|don t|no longer) want|opt out", " unsubscribe "),
        (r"out of (?:the )?office|on vacation|on holiday", " vacation absent status "),
        (r"(?:isn t|is not|not) (?:at work|in today|here)", " absent out employee "),
        (r"(?:day|days|week|time|friday|monday|tomorrow|\w+day) off", " time off vacation "),
        (r"how (?:much|many) (?:room|space)", " quota storage "),
        (r"how many|how often|how much data", " count statistics stats "),
        (r"how popular|how did (?:\w+ ){1,6}do", " statistics insights downloads "),
        (r"how (?:cold|hot|warm)", " temperature weather current "),
        (r"how far did i (?:walk|run)", " steps distance "),
        (r"how much money|how much (?:\w+ )?is (?:on|in)", " balance funds "),
        (r"how do i get|how to get|way to", " directions route "),
        (r"how do you say", " translate "),
        (
            r"what (?:does|do|would|will) (?:\w+ ){0,6}cost|how much (?:does|do|would|will) (?:\w+ ){0,6}cost",
            " price rates cost estimate ",
        ),
        (r"until when|what time|opening times", " hours time "),
        (r"when (?:could|can|are|do|does|is)", " time free available schedule "),
        (r"who (?:is|was|were|s|showed|came|bought|plays|edited)", " user people list members who "),
        (r"whose turn|on call|on duty", " on call "),
        (r"where (?:is|are|s)", " location track find "),
        (r"go back to|bring (?:\w+ ){0,3}back|undo|revert", " rollback restore earlier "),
        (r"give (?:\w+ ){0,6}back|money back", " refund restore "),
        (r"give (?:it |that )?another (?:go|try)|try again|once more", " retry rerun "),
        (r"another go", " retry rerun "),
        (r"out loud|aloud", " speech speak voice "),
        (r"out of sight|keep (?:\w+ ){0,3}from", " prevent lock block "),
        (r"at the (?:bottom|end)|to the end", " append last end "),
        (r"at the top", " pin top "),
        (r"thumbs up", " reaction like emoji "),
        (r"on its own|by itself|by themselves|automatically|from now on", " rule automatic filter "),
        (r"by hand|manually", " trigger manual "),
        (r"in one go|at once|all \d+", " batch bulk many "),
        (r"take (?:\w+ ){0,4}live|go live", " promote publish production "),
        (r"go ahead", " apply confirm "),
        (r"hand (?:\w+ ){0,4}over", " assign transfer "),
        (r"for good|forever", " permanently "),
        (r"add up", " sum total "),
        (r"to do|to dos|todos", " todo task "),
        (r"e mail", " email "),
        (r"right now|at the moment|just now", " current live now "),
        (r"going on|happened", " news events "),
    )
)

_GROUPS = """
create new add make open file register insert compose draft write start begin
create generate produce build
add put insert append attach include
list show all every see display browse enumerate
get show read fetch retrieve view see tell give check
search find look lookup locate query
update change edit modify alter set adjust correct replace rename
delete remove erase drop discard trash destroy clear wipe purge
send deliver post message write dispatch email mail text forward fire
cancel abort stop end terminate call revoke
stop pause halt suspend abort end
start run launch begin trigger kick execute invoke play
run execute trigger invoke call
restart rerun retry reboot again
close complete finish done resolve mark solved fixed
archive hide shelve
approve accept confirm yes allow
reject decline deny refuse no turn
share invite grant access collaborate give permission
move transfer shift drag relocate put transition
copy duplicate clone fork
merge join combine unite squash consolidate one
split cut divide separate
link connect relate associate url address
pay payment charge money transfer payout
buy purchase order book acquire
sell sale sales
book reserve reservation schedule
schedule plan appointment later calendar book
assign give hand route delegate
invite add join bring
subscribe follow join sign
unsubscribe leave optout
upload store save put attach
download save export fetch get
export convert render download save
convert transform turn change translate
compress shrink reduce zip smaller
translate say language
transcribe type dictate speech voice audio recording
generate draw create paint
speak speech voice say read
remind reminder nudge remember follow
notify notification alert push ping warn warning
mute silence quiet snooze
lock secure protect prevent
unlock open
block ban prevent stop
enable activate on switch
disable deactivate off switch
publish release live post public
review feedback look inspect
comment reply note remark respond answer
track follow trace where status
log record note track journal
estimate predict forecast expect quote
count number total statistics stats metrics amount
report summary analytics statistics overview insights
statistics stats views insights analytics performance
status state progress position
history versions revisions earlier previous past
restore recover undelete revert previous
rollback revert previous back earlier undo
scale replicas size instances copies resize more
deploy deployment rollout ship
issue bug ticket defect problem error report
ticket request case issue incident
task todo todos item chore
incident outage alert problem page pager
error exception crash failure bug
pull_request pr merge_request change
repository repo project codebase
branch ref
workflow action pipeline ci build job
job position opening vacancy role work
log logs output trace console printed
monitor alarm alert
server machine box instance vm host node
container pod image
bucket storage store
file document doc attachment pdf
folder directory
document doc page file article
page article wiki site
database table
table sheet grid
row record line entry item
column field property
spreadsheet sheet workbook excel
chart graph plot diagram
slide presentation deck
email mail message inbox letter
message chat text post sms
sms text message
channel room group
conversation chat thread discussion
contact person people address lead
customer client shopper buyer user
user account member person login
employee staff worker colleague
candidate applicant prospect
lead prospect
deal opportunity sale contract
company organization firm business
invoice bill receipt
expense cost spending
estimate offer quote
refund reimburse
subscription plan membership recurring monthly
coupon discount promotion promo code voucher
discount promotion code voucher coupon
dispute chargeback contest
balance funds money amount
price cost rate fare fee worth value
stock equity share quote ticker trading
symbol ticker
currency money exchange euro dollar yen pound
cryptocurrency crypto bitcoin ethereum eth btc coin
order purchase sale checkout
product goods item article merchandise
inventory stock quantity
cart checkout basket
parcel package shipment mail
label postage
shipping postage delivery mail
carrier courier
fulfill ship shipped deliver
payroll salary salaries wages pay
vacation holiday leave absence time_off
interview talk meeting
meeting call conference appointment session
event appointment meeting gathering
attendees participants guests people
recording video
video clip movie film
movie film
credits cast actor plays
music song track audio
song track music
artist band musician
play playback put
photo picture image photograph
image picture photo
caption subtitle
frame artboard
post tweet update publish
story
trending popular hot talk
popular hot trending
book reading
news headlines article
paper preprint study
weather rain temperature forecast cold sun
forecast weather rain tomorrow weekend
pollution smog air
storm hurricane flood warning
temperature heat thermostat warm cold degrees chilly
light lamp dark bright bulb
color blue red green
door entrance gate
vacuum robot clean
alarm security
place location spot restaurant shop store pharmacy
nearby around near close
directions route way navigate travel
coordinates latitude longitude geocode
flight fly plane airline
delay late time
hotel room stay sleep accommodation
home apartment house flat
ride taxi cab trip car driver
table dinner restaurant reservation
recipe cook dish meal
meal food eat calories
calories nutrition nutrients
steps walk
sleep night
weight
password passphrase credentials login
verification code passcode otp confirm
phone mobile cell number telephone
phone call ring
secret credential key
permission access role
role moderator permission
group team
survey questionnaire form
form survey contact
response answer submission
vulnerability security hole cve
package library module
cache edge
dns record domain point
environment variable env setting config
function lambda serverless
query sql statement
cost price bytes
plan explain
key value
push notification
newsletter campaign mailing
campaign newsletter mailing
bounce undeliverable fail
satisfaction happy rating
rating review star
signature sign signed
envelope document
slot free time busy available
reminder remind nudge
sticky note
board whiteboard
card task
checklist steps list
dependency block blocker
sprint iteration
worklog time hours spent
priority urgency
schedule rotation shift
override swap replace
kubernetes k8s cluster
postgresql postgres
google_calendar gcal
amazon aws
"""


@lru_cache(maxsize=50_000)
def _stemmed(word: str) -> str:
    return stem(word[:_LONGEST])


@lru_cache(maxsize=1)
def _groups() -> dict[str, tuple[str, ...]]:
    """For each term those of its groups. A word with `_` is several terms, found and never asked for."""
    found: dict[str, dict[str, None]] = {}
    for line in _GROUPS.strip().splitlines():
        group = [[_stemmed(part) for part in word.split("_")] for word in line.split()]
        for number, one in enumerate(group):
            if len(one) == 1:
                others = [term for at, other in enumerate(group) if at != number for term in other]
                found.setdefault(one[0], {}).update(dict.fromkeys(others))
    return {term: tuple(other for other in others if other != term) for term, others in found.items()}


def variants(term: str) -> tuple[str, ...]:
    """Terms of about the same meaning."""
    return _groups().get(term, ())


def _split(text: str) -> str:
    """The folded words of a text, with a blank between them; identifiers are split into their words."""
    return _SIGNS.sub(" ", fold(_BOUNDARY.sub(" ", text)))


def plain_terms(text: str) -> list[str]:
    """The terms of a name, a description or a parameter, in order."""
    folded = _split(text)
    if not folded.isascii():
        return [term[:_LONGEST] for term in terms(folded)]
    return [_stemmed(word) for word in folded.split() if word not in _GLUE]


def request_terms(text: str) -> dict[str, float]:
    """The terms of a request and how much each counts: what is said outright 1, what a phrase stands for less."""
    folded = _split(text)
    if not folded.isascii():
        return dict.fromkeys(plain_terms(text), 1.0)
    weights: dict[str, float] = {}
    for pattern, words in PHRASES:
        if pattern.search(folded):
            for word in words.split():
                weights.setdefault(_stemmed(word), _BY_PHRASE)
    for word in folded.split():
        if word not in _NOISE:
            weights[_stemmed(word)] = 1.0
    return weights


def spellings(term: str) -> set[str]:
    """The term, and what is left of it without one of its letters: two terms that share one are at most a slip apart."""
    return {term, *(term[:at] + term[at + 1 :] for at in range(len(term)))}
