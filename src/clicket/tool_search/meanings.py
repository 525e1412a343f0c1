"""Words as data: those that say nothing, turns of speech, and words of one meaning.

They are general English of people who ask for something, and of the services that tools are made for.
"""

from __future__ import annotations

__all__ = ["GLUE", "GROUPS", "NOISE", "PHRASES", "VERBS"]

GLUE = frozenset("a an the of to in at by for from with as and or it its is are be that this which".split())
"""Words of a description that say nothing about a tool."""
NOISE = frozenset(
    """a an the of to in into on at by for from with as and or but if so than then that this these those there here it its he she his her
    him they them their we us our ours you your i me my mine myself yourself is are was were be been being am do does did done doing have
    has had having will would shall should can could may might must not no nor don doesn didn isn wasn won t s re ve ll d m please just
    also too very really any some such only own same other another both each every what which how why when where who whom whose
    want wants wanted need needs needed like let lets help could ask tell please thanks thank hi hello hey okay ok now soon really
    about after again all before between during more most off once out over through under until up down while because got get gets
    im ive id youre thats whats one thing things something anything somebody someone anybody everybody people bit lot""".split()
)
"""Words of a request that say nothing about a tool. Some of them mean something within a phrase; see `PHRASES`."""

VERBS = (
    "create add new list get read retrieve show update set change edit modify patch put delete remove search find query archive restore"
)
"""What names of tools have for doing the usual things to a thing."""

PHRASES = """
get rid of = delete remove
throw away = delete remove trash
do away with = delete remove
take .. down = delete remove
throw .. out = ban remove kick
kick .. out = ban remove kick
turn .. off = off stop disable
switch .. off = off stop disable
shut down = off stop
turn .. on = on start enable
switch .. on = on start enable
turn down = decline reject
turn .. down = decline reject
turn .. into = convert export
set .. up = create start schedule
spin up = create start run
bring up = create start
look .. over = review
look .. up = search find lookup
dig .. up = search find lookup
look for = search find
write .. down = create note
write .. up = create note
tick .. off = complete close checklist
check .. off = complete close
cross .. off = complete close
mark .. done = complete close resolve
call .. off = cancel
sign .. up = subscribe register
opt in = subscribe
opt out = unsubscribe
doesn t want = unsubscribe
don t want = unsubscribe
no longer want = unsubscribe
out of office = vacation absent status
out of the office = vacation absent status
on vacation = vacation absent status
on holiday = vacation absent status
not at work = absent out employee
isn t at work = absent out employee
day off = time off vacation
days off = time off vacation
week off = time off vacation
time off = time off vacation
friday off = time off vacation
monday off = time off vacation
tomorrow off = time off vacation
how much room = quota storage
how much space = quota storage
how many = count statistics stats
how often = count statistics stats
how much data = bytes size estimate
how popular = statistics insights downloads
how did .. do = statistics insights
how cold = temperature weather current
how hot = temperature weather current
how warm = temperature weather current
how far = distance steps
how much money = balance funds
how much is = balance price
how do i get = directions route
how to get = directions route
how do you say = translate
does .. cost = price rates cost estimate
would .. cost = price rates cost estimate
will .. cost = price rates cost estimate
until when = hours time
what time = hours time
when could = time free available schedule
when can = time free available schedule
when do = time free available schedule
when is = time schedule
who is = user people list who
who was = people list who
who showed = participants attendance
who came = participants attendance
who bought = attendees customers
who edited = history versions authors
whose turn = on call
on call = on call
on duty = on call
where is = location track
where are = location track
go back to = rollback restore earlier
bring .. back = restore rollback earlier
give .. back = refund restore
money back = refund
another go = retry rerun
another try = retry rerun
try again = retry rerun
once more = retry rerun
out loud = speech speak voice
keep .. from = prevent lock block
at the bottom = append last end
at the end = append last end
at the top = pin top
thumbs up = reaction like emoji
by itself = rule automatic filter
on its own = rule automatic filter
from now on = rule automatic filter
by hand = trigger manual
in one go = batch bulk many
at once = batch bulk many
take .. live = promote publish production
go live = promote publish production
go ahead = apply confirm
hand .. over = assign transfer
for good = permanently
to do = todo task
to dos = todo task
e mail = email
right now = current live now
at the moment = current live now
going on = news headlines events
"""
"""Turns of speech, and the words that they stand for. `..` stands for up to four words."""

GROUPS = """
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
"""Words of about the same meaning, a group on each line. A word may be in several; one with `_` is several words, and is not asked for."""
