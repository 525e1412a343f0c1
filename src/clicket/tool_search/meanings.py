"""Words as data: those that say nothing, turns of speech, and words of one meaning.

They are general English of people who ask for something, and of the services that tools are made for.
"""

from __future__ import annotations

__all__ = [
    "ASKED",
    "ASKING_VERBS",
    "ASKS",
    "CALENDAR",
    "GLUE",
    "GROUPS",
    "NOISE",
    "PHRASES",
    "POLITE",
    "QUESTIONS",
    "TELLING",
    "TOOL_VERBS",
    "VERBS",
]

GLUE = frozenset("a an the of to in at by for from with as and or it its is are be that this which".split())
"""Words of a description that say nothing about a tool."""
NOISE = frozenset(
    """a an the of to in into on at by for from with as and or but if so than then that this these those there here it its he she his her
    him they them their we us our ours you your i me my mine myself yourself is are was were be been being am do does did done doing have
    has had having will would shall should can could may might must not no nor don doesn didn isn wasn won t s re ve ll d m please just
    also too very really any some such only own same other another both each every what which how why when where who whom whose
    want wants wanted need needs needed like let lets help could ask please thanks thank hi hello hey okay ok now soon really
    about after again all before between during more most off once out over through under until up down while because got get gets
    im ive id youre thats whats one thing things something anything somebody someone anybody everybody people bit lot""".split()
)
"""Words of a request that say nothing about a tool. Some of them mean something within a phrase; see `PHRASES`."""

VERBS = "create add new list get read retrieve show update set change edit modify patch put delete remove search find query archive restore"
"""What names of tools have for doing the usual things to a thing."""

TOOL_VERBS = """
read: list get read fetch retrieve show view describe search find query lookup scan browse enumerate count check download export track ;
create: create add new insert register make generate draft compose ;
update: update set change edit modify patch adjust replace rename ;
delete: delete remove clear purge trash erase destroy terminate
"""
"""Verbs in names of tools, by what they do."""
ASKING_VERBS = """
read: show list get see view read fetch retrieve display tell find search look check browse pull give lookup query inspect count
  describe explain compare details which what who how is are does did has when where whose any ;
read: open bring ;
create: create add new make insert register compose draft write build generate open start begin file enter put log record set save
  store schedule prepare launch post submit define introduce plan issue draw book ;
update: update change edit modify set adjust rename correct replace alter move switch raise lower increase decrease mark put push
  extend fix make assign turn reschedule shift postpone swap give ;
delete: delete remove erase drop discard trash destroy wipe purge scrap clear cancel kill terminate throw take tear empty get
"""
"""First verbs of requests, by what they may want."""
POLITE = frozenset(
    "please can could would will you kindly i we d want need to like let us just now hey hi hello s".split()
)
"""Words with which a request begins before it says what it wants."""

QUESTIONS = frozenset(
    "what which who whose where when how is are was were do does did will can any how show list".split()
)
"""First words of a request for information."""
ASKS = "list get search"
"""What tools do that give some."""
TELLING = frozenset(
    """tell tweet say write post announce note let ping notify show message mail email text warn inform remind jot record mention report
    answer reply comment send add log leave""".split()
)
"""First words of requests to pass something on."""
CALENDAR = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october
    november december i""".split()
)
"""Words with a capital that name no service."""

PHRASES = """
get rid of = delete remove ; throw away = delete remove trash ; do away with = delete remove ; take .. down = delete remove ;
throw .. out = ban remove kick ; kick .. out = ban remove kick ; turn .. off = off stop disable ;
switch .. off = off stop disable ; shut down = off stop ; turn .. on = on start enable ; switch .. on = on start enable ;
turn down = decline reject ; turn .. down = decline reject ; turn .. into = convert export ; set .. up = create start schedule ;
spin up = create start run ; bring up = create start ; look .. over = review ; look .. up = search find lookup ;
dig .. up = search find lookup ; look for = search find ; write .. down = create note ; write .. up = create note ;
tick .. off = complete close checklist ; check .. off = complete close ; cross .. off = complete close ;
mark .. done = complete close resolve ; call .. off = cancel ; sign .. up = subscribe register ; opt in = subscribe ;
opt out = unsubscribe ; doesn t want = unsubscribe ; don t want = unsubscribe ; no longer want = unsubscribe ;
out of office = vacation absent status ; out of the office = vacation absent status ; on vacation = vacation absent status ;
on holiday = vacation absent status ; not at work = absent out employee ; isn t at work = absent out employee ;
day off = time off vacation ; days off = time off vacation ; week off = time off vacation ; time off = time off vacation ;
friday off = time off vacation ; monday off = time off vacation ; tomorrow off = time off vacation ;
how much room = quota storage ; how much space = quota storage ; how many = count ; how many people = statistics count ;
how many times = statistics count ; stop .. from = prevent lock block ; take .. out of = delete remove ;
take out = delete remove ; has a new = update change ; have a new = update change ; has changed = update change ;
has moved = update change ; came in = transactions received ; come in = transactions received ; another one = next skip ;
the next one = next skip ; say about = search ; says about = search ; talk about = search trending ;
is there room = available find ; any room = available find ; least expensive = cheapest price ; each month = monthly payment ;
per month = monthly payment ; a month = monthly payment ; put .. into = move transition add ; put on = play start playback ;
put up = create publish ; let .. edit = share access permission ; let .. see = share access ; can t start = dependency blocker ;
went out = shipped fulfill sent ; any openings = job postings ; who plays = cast credits ; on time = delay late status ;
type up = transcribe ; work out = compute solve calculate ; out of these = merge combine ; make .. out of = convert merge create ;
take over = assign override ; come by = pickup ; a copy = copy fork duplicate ; by mistake = restore earlier ;
according to = get report ; call a = call schedule ; no longer need = cancel delete ; don t need = cancel delete ;
changed .. mind = cancel ; how often = count statistics stats ; how much data = bytes size estimate ;
how popular = statistics insights downloads ; how did .. do = statistics insights ; how cold = temperature weather current ;
how hot = temperature weather current ; how warm = temperature weather current ; how far = distance steps ;
how much money = balance funds ; how much is = balance price ; how do i get = directions route ; how to get = directions route ;
how do you say = translate ; does .. cost = price rates cost estimate ; would .. cost = price rates cost estimate ;
will .. cost = price rates cost estimate ; until when = hours time ; what time = hours time ;
when could = time free available schedule ; when can = time free available schedule ; when do = time free available schedule ;
when is = time schedule ; who is = user people list who ; who was = people list who ; who showed = participants attendance ;
who came = participants attendance ; who bought = attendees customers ; who edited = history versions authors ;
whose turn = on call ; on call = on call ; on duty = on call ; where is = location track ; where are = location track ;
go back to = rollback restore earlier ; bring .. back = restore rollback earlier ; give .. back = refund restore ;
money back = refund ; another go = retry rerun ; another try = retry rerun ; try again = retry rerun ; once more = retry rerun ;
out loud = speech speak voice ; keep .. from = prevent lock block ; at the bottom = append last end ;
at the end = append last end ; at the top = pin top ; thumbs up = reaction like emoji ; by itself = rule automatic filter ;
on its own = rule automatic filter ; from now on = rule automatic filter ; by hand = trigger manual ;
in one go = batch bulk many ; at once = batch bulk many ; take .. live = promote publish production ;
go live = promote publish production ; go ahead = apply confirm ; hand .. over = assign transfer ; for good = permanently ;
to do = todo task ; to dos = todo task ; e mail = email ; right now = current live now ; at the moment = current live now ;
going on = news headlines events ; power .. down = stop off ; power .. up = start on ; put .. away = archive hide ;
break .. down = split subtask ; want a = create new ; want an = create new ; need a = create new ; need an = create new ;
needs a = create new ; needs another = create add new ; need another = create add new ; let .. know = notify send event
"""
"""Turns of speech, and the words that they stand for. `..` stands for up to four words. Separated by semicolons."""

GROUPS = """
create new add make open file register insert compose draft write start begin ; create generate produce build ;
add put insert append attach include ; list show all every see display browse enumerate ;
get show read fetch retrieve view see tell give check ; search find look lookup locate query ;
update change edit modify alter set adjust correct replace rename ;
delete remove erase drop discard trash destroy clear wipe purge ;
send deliver post message write dispatch email mail text forward fire ; cancel abort stop end terminate call revoke ;
stop pause halt suspend abort end ; start run launch begin trigger kick execute invoke play ; run execute trigger invoke call ;
restart rerun retry reboot again ; close complete finish done resolve mark solved fixed ; archive hide shelve ;
approve accept confirm yes allow ; reject decline deny refuse no turn ; share invite grant access collaborate give permission ;
move transfer shift drag relocate put transition ; copy duplicate clone fork ; merge join combine unite squash consolidate one ;
split cut divide separate ; link connect relate associate url address ; pay payment charge money transfer payout ;
buy purchase order book acquire ; sell sale sales ; book reserve reservation schedule ;
schedule plan appointment later calendar book ; assign give hand route delegate ; invite add join bring ;
subscribe follow join sign ; unsubscribe leave optout ; upload store save put attach ; download save export fetch get ;
export convert render download save ; convert transform turn change translate ; compress shrink reduce zip smaller ;
translate say language ; transcribe type dictate speech voice audio recording ; generate draw create paint ;
speak speech voice say read ; remind reminder nudge remember follow ; notify notification alert push ping warn warning ;
mute silence quiet snooze ; lock secure protect prevent ; unlock open ; block ban prevent stop ; enable activate on switch ;
disable deactivate off switch ; publish release live post public ; review feedback look inspect ;
comment reply note remark respond answer ; track follow trace where status ; log record note track journal ;
estimate predict forecast expect quote ; count number total statistics stats metrics amount ;
report summary analytics statistics overview insights ; statistics stats views insights analytics performance ;
status state progress position ; history versions revisions earlier previous past ; restore recover undelete revert previous ;
rollback revert previous back earlier undo ; scale replicas size instances copies resize more ; deploy deployment rollout ship ;
issue bug ticket defect problem error report ; ticket request case issue incident ; task todo todos item chore ;
incident outage alert problem page pager ; error exception crash failure bug ; pull_request pr merge_request change ;
repository repo project codebase ; branch ref ; workflow action pipeline ci build job ; job position opening vacancy role work ;
log logs output trace console printed ; monitor alarm alert ; server machine box instance vm host node ; container pod image ;
bucket storage store ; file document doc attachment pdf ; folder directory ; document doc page file article ;
page article wiki site ; database table ; table sheet grid ; row record line entry item ; column field property ;
spreadsheet sheet workbook excel ; chart graph plot diagram ; slide presentation deck ; email mail message inbox letter ;
message chat text post sms ; sms text message ; channel room group ; conversation chat thread discussion ;
contact person people address lead ; customer client shopper buyer user ; user account member person login ;
employee staff worker colleague ; candidate applicant prospect ; lead prospect ; deal opportunity sale contract ;
company organization firm business ; invoice bill receipt ; expense cost spending ; estimate offer quote ; refund reimburse ;
subscription plan membership recurring monthly ; coupon discount promotion promo code voucher ;
discount promotion code voucher coupon ; dispute chargeback contest ; balance funds money amount ;
price cost rate fare fee worth value ; stock equity share quote ticker trading ; symbol ticker ;
currency money exchange euro dollar yen pound ; cryptocurrency crypto bitcoin ethereum eth btc coin ;
order purchase sale checkout ; product goods item article merchandise ; inventory stock quantity ; cart checkout basket ;
parcel package shipment mail ; label postage ; shipping postage delivery mail ; carrier courier ; fulfill ship shipped deliver ;
payroll salary salaries wages pay ; vacation holiday leave absence time_off ; interview talk meeting ;
meeting call conference appointment session ; event appointment meeting gathering ; attendees participants guests people ;
recording video ; video clip movie film ; movie film ; credits cast actor plays ; music song track audio ; song track music ;
artist band musician ; play playback put ; photo picture image photograph ; image picture photo ; caption subtitle ;
frame artboard ; post tweet update publish ; story ; trending popular hot talk ; popular hot trending ; book reading ;
news headlines article ; paper preprint study ; weather rain temperature forecast cold sun ;
forecast weather rain tomorrow weekend ; pollution smog air ; storm hurricane flood warning ;
temperature heat thermostat warm cold degrees chilly ; light lamp dark bright bulb ; color blue red green ; door entrance gate ;
vacuum robot clean ; alarm security ; place location spot restaurant shop store pharmacy ; nearby around near close ;
directions route way navigate travel ; coordinates latitude longitude geocode ; flight fly plane airline ; delay late time ;
hotel room stay sleep accommodation ; home apartment house flat ; ride taxi cab trip car driver ;
table dinner restaurant reservation ; recipe cook dish meal ; meal food eat calories ; calories nutrition nutrients ; steps walk ;
sleep night ; weight ; password passphrase credentials login ; verification code passcode otp confirm ;
phone mobile cell number telephone ; phone call ring ; secret credential key ; permission access role ;
role moderator permission ; group team ; survey questionnaire form ; form survey contact ; response answer submission ;
vulnerability security hole cve ; package library module ; cache edge ; dns record domain point ;
environment variable env setting config ; function lambda serverless ; query sql statement ; cost price bytes ; plan explain ;
key value ; push notification ; newsletter campaign mailing ; campaign newsletter mailing ; bounce undeliverable fail ;
satisfaction happy rating ; rating review star ; signature sign signed ; envelope document ; slot free time busy available ;
reminder remind nudge ; sticky note ; board whiteboard ; card task ; checklist steps list ; dependency block blocker ;
sprint iteration ; worklog time hours spent ; priority urgency ; schedule rotation shift ; override swap replace ;
kubernetes k8s cluster ; postgresql postgres ; google_calendar gcal ; amazon aws
"""
"""Words of about the same meaning, separated by semicolons. A word may be in
several; one with `_` is several words, and is not asked for."""

ASKED = """
abort halt kill interrupt > stop cancel abort terminate ; accept agree okay approval > approve accept ;
advertise advertising promote promotion ad > campaign ads marketing promote ; aloud narrate pronounce > speech speak voice ;
announce inform tell say broadcast > send post message publish notify ; answer respond react > reply respond comment ;
appoint nominate designate promote > assign role ; arrange organize organise plan book setup > schedule create ;
article story piece > article post page entry ; attendance attended showed joined > participants attendees attendance ;
away absent sick holiday vacation > absent vacation out time ; backup > snapshot copy upload backup export ;
bill charge invoice > invoice bill charge ; bookmark favorite favourite > star save like pin ; borrow > loan ;
bounce reboot restart > restart reboot rollout ; break crash crashed broken flaky flaked failed failing > failed error crash ;
brighten dim darken dark dimmer bright gloomy > light lamp brightness ;
bring fetch grab obtain pull > get download read retrieve ; browse explore > list search ;
calculate compute solve work figure evaluate > compute solve calculate ; call phone ring dial telephone > call phone ;
cash money funds cents dollars euros bucks amount > amount money balance payment currency ;
cast actors actress actor starring plays played > cast crew credits ; chat dm talk converse > message chat conversation ;
cheap cheapest inexpensive affordable > price cheapest rate ;
cheque check verify validate confirm test > check verify test validate ;
chilly cold freezing warm heat heating cool hot > temperature thermostat climate ; clean tidy hoover sweep > vacuum clean clear ;
client shopper buyer guest patron > customer contact ; clip shorten trim cut > trim clip cut ;
close finish complete done solved fixed resolved > close complete resolve mark ;
clue info information details about facts > details get info ; coin bitcoin btc eth ether ethereum crypto > cryptocurrency ;
collect gather harvest pickup > pickup collect ; colleague coworker teammate staff worker > employee user member ;
complaint complain problem trouble > ticket issue case support ; comrade friend buddy > user contact member ;
connect wire hook attach join tie > connect link attach ;
conversation discussion thread talk > conversation thread messages comments ;
convert turn change transform > convert export transcode ; cook cooking dish dinner lunch eat > recipe meal ;
copy duplicate replicate mirror own > copy fork clone duplicate ;
cost costs price priced pay expensive > price cost rate fare estimate ; crowd everyone everybody all > all list ;
customer complaint > ticket ; dark > off light ; data records entries rows > rows records data query ;
deadline due late overdue > due date ; deal contract agreement > deal opportunity envelope ;
decline reject refuse veto deny > decline reject ; deliver ship send dispatch mail > send ship delivery shipment ;
design mockup wireframe artboard sketch > design file frames ; diagram chart graph plot visualize > chart graph plot ;
dial > call ; disagree > reject ; discover look seek hunt locate > search find ;
disk drive storage room space capacity > storage quota volume disk ; distribute share hand > share send ;
draw paint sketch illustrate picture > generate image plot ; dump discard scrap bin trash toss junk > delete remove trash cancel ;
duplicate same twice > merge duplicate link ; earn earned income revenue profit lose loss > income profit sales expenses ;
edit revise amend alter correct fix adjust > update change edit modify ; email mail write letter > email send mail ;
empty wipe flush blank erase clear > clear purge delete ; enter input type fill > create add fill log ;
estimate guess predict expect forecast likely > estimate predict forecast ;
exam survey poll vote questionnaire > poll survey form ; excel sheet spreadsheet table > spreadsheet sheet range table ;
exchange swap trade switch > exchange trade override ; expire expires expiring temporary > expiry expires presigned ;
film movie cinema > movie film ; fire launch kick spark > send run start trigger ;
fit fitness exercise workout jog ran run > activity run ; flight fly plane flying > flight ;
follow watch track monitor > track follow subscribe ; food groceries nutrition > meal food recipe nutrition ;
forgot forgotten lost > reset password ; forward route hand delegate pass > assign forward transfer route ; found > search ;
free available busy > free available ; gate departure arrival boarding > gate departures flight status ;
gaming game match > game ; gist summary overview brief briefly short > summary overview ;
give grant allow permit let > share grant access assign ; grep log logs printed output console wrote > logs log output console ;
guide howto manual tutorial > article help ; hear listen listened listening > play playback ;
hide mute quiet silence shush snooze > mute silence hide ;
hire hiring recruit applicant resume interview > candidate application interview job ;
home house flat apartment condo rental > home homes stays house apartment ; hour hours open opening closes > opening hours ;
house > home ; identify who whois > identify lookup ; image photo picture pic photograph > photo image picture ;
import load ingest > load import upload ; inbox mailbox > emails mailbox ; incident outage down emergency > incident ;
income salary wage pay payslip salaries > payroll pay ; inside contents content says > contents content read text ;
internet web site website > site page web ; invite ask > invite invitation ; item thing product > item product ;
join unite combine together > merge join combine ; kick ban expel banish spammer troll > ban kick remove ;
label tag categorize classify > label tag ; landline cell mobile handset > phone number line carrier ;
language tongue hungarian spanish french german italian japanese chinese > language translate ;
launch live production > promote publish deploy run ; leave quit exit > leave unsubscribe ;
legal sign signed signature > envelope signature signed ; letter > document email ; light lamp bulb lights > light lamp ;
likes liked popular popularity viral > statistics insights popular ; link url hyperlink > link url ; list > list ;
login signin password passphrase credential > login password ; lookup > lookup search ; lunch dinner breakfast > meal restaurant ;
mark flag tick > mark flag ; meet meeting appointment call standup sync > meeting event ;
memo recording voice audio dictation > audio recording transcribe ; merge squash land > merge ;
message text sms > message sms text ; mind > cancel ; mine my > user ;
mistake accident accidentally oops overwrote overwritten > restore revision earlier ;
moderator admin rights privilege > role permissions ; money > payment ;
month monthly quarter quarterly year yearly > report period ;
music song songs track tune melody album band bands > song music songs playback artists ; name > name ;
near nearby around close here > nearby ; newsletter mailing blast > campaign newsletter ; night tonight sleep slept > sleep ;
nod > approve ; notes remark comment feedback > comment note ;
notify nudge remind ping poke > notify reminder remind notification push ; offer quote quotation proposal > estimate quote ;
office desk > work ; old older previous earlier former last yesterday > earlier previous history ;
opinion reviews review rating > reviews ratings ; order purchase bought buy > order purchase buy ;
outsider stranger public > public collaborators ; overtime hours worked > worklog shifts time ;
owe owes owed outstanding unpaid > outstanding receivables due ; owner > owner ;
package parcel box boxes postage > parcel package shipment label ; page article wiki > page ;
paper research study preprint > papers preprints literature ; participants people attendees > participants attendees ;
pause stop halt > pause stop ; pdf > pdf ; person people somebody someone > user contact people ;
pharmacy shop store cafe supermarket > places nearby businesses ; phone > phone ; pin stick sticky > pin sticky ;
place spot location > place location ; play put > play start ; poll vote > poll ; post publish share tweet > post publish share ;
prepare ready > create draft ; prevent forbid stop restrict keep nobody > protect lock block prevent ;
price worth value > price value quote ; print > label render ; prospect lead > lead ; push > push commits ; quarter > quarter ;
question ask > query search ; queue backlog > queue ; rain raining snow sunny storm umbrella weather weekend > weather forecast ;
raise increase more bigger larger scale grow > scale resize update ; read > read get ; receipt expense > expense receipts ;
recover undo revert undelete > restore rollback ; recurring subscription plan monthly > subscription recurring ;
redo repeat again retry > retry rerun ; refund reimburse return back > refund ;
register enroll signup subscribe > register subscribe create ; rename retitle call > rename update move ;
rent rental > stays homes ; repo repository codebase project > repository ; report bug defect > issue report ;
request demand > request ; reservation table seat > table reservation reserve ; ride taxi cab lift > ride driver ;
rights access permission > access permissions role ; robot roomba > vacuum ; room channel > channel ;
rotation shift duty pager oncall > on call schedule rotation override ; route directions way navigate train > directions route ;
run execute perform > run execute ; safe secure security vulnerable hole hack exploit > vulnerabilities vulnerability security ;
satisfied happy unhappy > satisfaction ratings ; save store keep > save upload store ; scan > scan check ;
score result > scores results ; scrap > delete cancel ; screen screenshot > screenshot ; search hunt > search ;
sell sold sale sales > sale sales product listing ; set define configure > create set update ;
seat seats room party > table tables available ; quarterly earnings results > earnings income statement ;
server machine box vm host instance > instances server servers droplet ; settle paid pay > payment pay ; shelf > shelf ;
shrink smaller compress reduce > compress resize reduce ; sick > time off ;
slow slowly performance speed faster > explain performance latency ; smog pollution dirty > air pollution ; song > song ;
sound sounds similar like > similar recommendations ; speak spoken > speech ; spend spent spending > transactions expenses ;
spin start boot > run start create ; stack traceback exception > stack traces error events ;
standing standings table ranking > standings ; start begin open new > create start ; status progress state > status ;
stay sleep hotel overnight accommodation > hotel stays accommodation ;
stock stocks shares trading ticker > equity stock symbol quote ; stop end > cancel stop ;
stream streaming watch > streaming watch videos ; street address > address ; subtitle subtitles transcript > captions subtitle ;
summarize sum > summary ; swap replace exchange substitute > override replace ; talk > interview meeting conversation ;
task todo chore errand reminder > task todo ; teammate > member user ; temperature degrees celsius fahrenheit > temperature ;
terminate permanently forever destroy > terminate delete ; text > sms message ; thumbs emoji smile heart > reaction emoji like ;
ticket bug > issue ticket ; timer clock stopwatch > time tracking timer ; tired > sleep ; title > title ;
token key secret > secret token ; tomorrow next week > schedule forecast ; topic subject > topic ; track > track ;
train bus transit > directions transit ; transcribe > transcribe ; translate > translate ;
trend trending buzz hype > trending popular ; trip travel journey vacation > travel trip ; unblock unlock > unlock ;
unhappy > satisfaction ; update > update ; upload attach > upload attach ; usage used consumption > usage statistics ;
user users people > users user ; version release > release version ; video clip film footage > video ;
view watched views seen > views statistics ; visit visitors traffic visited > visitors traffic analytics ; wait hold > pause ;
wake alert page summon escalate > incident create notify alert ; wallet account > wallets account ;
warn warning alarm alert > alert alerts monitor rule warnings ; water drink drank > water ; weather > weather ; week > week ;
weigh weight > weight ; who > who ; wipe > clear delete ; withdraw retract rescind > void cancel delete ;
withdrawal payout > payout transfer ; wire transfer remit > transfer ; wiki > page ; word words doc docx > document ;
worker workers dyno > dynos workers ; write jot note > create note write ; pulse heartbeat bpm > heart rate ;
sunscreen sunburn tan sunbathe > ultraviolet uv ; loud louder quieter softer > volume ; category > label tag ;
own owns assets debts liabilities > assets liabilities equity balance ; unpayable invalid > void ;
arabic bulgarian catalan croatian czech danish dutch english estonian finnish greek hebrew hindi indonesian korean latin latvian
  lithuanian malay mandarin norwegian persian polish portuguese romanian russian serbian slovak slovenian swahili swedish tagalog
  thai turkish ukrainian urdu vietnamese welsh > translate language ;
plane planes jet airliner aircraft > flight aircraft ;
mp4 mkv mov avi webm wmv > video file ; mp3 wav flac ogg m4a aac > audio file ; png jpg jpeg gif webp svg heic > image picture ;
txt md log ini conf yaml yml toml > text file ; csv tsv xlsx xls > spreadsheet file csv ; docx odt rtf > document file ;
pptx > document presentation ; zip tar gz rar > archive compress zip ; html htm > web page html ; mr mrs > merge request
"""
"""What people say, and the words that tools have for it. Only read from left to right."""
