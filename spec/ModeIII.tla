------------------------------- MODULE ModeIII ------------------------------
(***************************************************************************)
(* A switch in Mode-III, connection augmented (EPIC 4.4, algorithms 2 and  *)
(* 3): reliability on each hop, and two pipes, of which the tree's root    *)
(* hands the aggregates of one to the other when that has room (H.4).      *)
(***************************************************************************)
EXTENDS Epic

ASSUME Mutation \in {"none", "same-message", "mode-ii-recycling", "figure-6"}

IsTreeRoot(s) == Parent[s] = None

Aggregation == "aggregation"
Replication == "replication"
Slots ==
    (Aggregation :> IF Mutation \in {"mode-ii-recycling", "figure-6"} THEN 2 * Window ELSE Window)
    @@ (Replication :> Window)

\* A pipe's sources, and where its packets go; the tree's root is its own source, and `s` stands for itself.
Sources(s, pipe) ==
    CASE pipe = Aggregation /\ Primitive = "all_reduce" -> Children[s]
      [] pipe = Aggregation /\ Primitive = "reduce" -> Neighbours[s] \ {TowardRoot[s]}
      [] pipe = Replication /\ Primitive = "all_reduce" -> IF IsTreeRoot(s) THEN {s} ELSE {Parent[s]}
      [] pipe = Replication /\ Primitive = "broadcast" -> {TowardRoot[s]}
      [] OTHER -> {}
Outs(s, pipe) ==
    CASE pipe = Aggregation /\ Primitive = "all_reduce" -> IF IsTreeRoot(s) THEN {s} ELSE {Parent[s]}
      [] pipe = Aggregation /\ Primitive = "reduce" -> {TowardRoot[s]}
      [] pipe = Replication /\ Primitive = "all_reduce" -> Children[s]
      [] pipe = Replication /\ Primitive = "broadcast" -> Neighbours[s] \ {TowardRoot[s]}
      [] OTHER -> {}

\* The pipe that takes what a neighbour sends, and the one that it is sent from.
PipeFrom(s, n) == IF n \in Sources(s, Aggregation) THEN Aggregation ELSE Replication
PipeTo(s, n) == IF n \in Outs(s, Aggregation) THEN Aggregation ELSE Replication

Free == [from |-> {}, load |-> Nothing]
NewPipe(pipe) == [start |-> 0, slots |-> [i \in 0 .. Slots[pipe] - 1 |-> Free]]
NewHop ==
    [expected |-> 0,    \* everything that the neighbour sent before it has arrived
     asked |-> FALSE,   \* a NAK has been sent since the last packet in order
     acked |-> 0,       \* everything before it has arrived at the neighbour
     cursor |-> 0,      \* what is sent next
     sent |-> 0]        \* one past the last that was sent

NewSwitch(s) ==
    [known |-> FALSE,
     pipes |-> [pipe \in {Aggregation, Replication} |-> NewPipe(pipe)],
     local |-> 0,       \* at the tree's root, what is handed over next
     hops |-> [n \in Neighbours[s] |-> NewHop]]

-----------------------------------------------------------------------------
(* Pipes. *)

InRange(switch, pipe, number) ==
    LET start == switch.pipes[pipe].start IN start <= number /\ number < start + Slots[pipe]
Slot(switch, pipe, number) == switch.pipes[pipe].slots[number % Slots[pipe]]
IsComplete(s, switch, pipe, number) ==
    /\ number < AllPackets
    /\ InRange(switch, pipe, number)
    /\ Slot(switch, pipe, number).from = Sources(s, pipe)

\* CheckDuplicate and AggregateData.
Add(switch, pipe, number, from, load) ==
    LET slot == Slot(switch, pipe, number)
        held == [from |-> slot.from \cup {from},
                 load |-> IF slot.from = {} THEN load ELSE Plus(slot.load, load)]
    IN IF from \in slot.from THEN switch
       ELSE [switch EXCEPT !.pipes[pipe].slots[number % Slots[pipe]] = held]

RecycleTo(switch, pipe, start) ==
    LET before == switch.pipes[pipe].start
        freed == {number % Slots[pipe] : number \in before .. Min({start, before + Slots[pipe]}) - 1}
        slots == [i \in 0 .. Slots[pipe] - 1 |->
                     IF i \in freed THEN Free ELSE switch.pipes[pipe].slots[i]]
    IN IF start <= before THEN switch
       ELSE [switch EXCEPT !.pipes[pipe] = [start |-> start, slots |-> slots]]

\* The oldest number that somebody whom a pipe sends to may still miss.
Missed(s, switch, pipe) ==
    Min({IF n = s THEN switch.local ELSE switch.hops[n].acked : n \in Outs(s, pipe)})

\* What follows by itself: ranges move on, and aggregates are handed over (H.4).
MoveOnce(s, switch) ==
    LET used == {pipe \in {Aggregation, Replication} : Outs(s, pipe) # {}}
        lagging == {pipe \in used : Missed(s, switch, pipe) > switch.pipes[pipe].start}
        local == Max({switch.local, switch.pipes[Aggregation].start})
        turns == s \in Outs(s, Aggregation)
    IN IF lagging # {}
       THEN LET pipe == CHOOSE p \in lagging : TRUE
            IN RecycleTo(switch, pipe, Missed(s, switch, pipe))
       ELSE IF turns /\ IsComplete(s, switch, Aggregation, local) /\ InRange(switch, Replication, local)
       THEN LET load == Slot(switch, Aggregation, local).load
            IN [Add(switch, Replication, local, s, load) EXCEPT !.local = local + 1]
       ELSE switch

RECURSIVE MoveOn(_, _)
MoveOn(s, switch) ==
    With(MoveOnce(s, switch), LAMBDA next : IF next = switch THEN switch ELSE MoveOn(s, next))

-----------------------------------------------------------------------------
(* Sending: what is complete leaves in order toward each neighbour. *)

SendNext(s, n, answer) ==
    LET switch == answer.state
        number == switch.hops[n].cursor
        pipe == PipeTo(s, n)
        next == [switch EXCEPT !.hops[n].cursor = number + 1,
                               !.hops[n].sent = Max({@, number + 1})]
    IN IF n \in Outs(s, pipe) /\ IsComplete(s, switch, pipe, number)
       THEN Answer(next, Append(answer.sends, To(n, Data(number, Slot(switch, pipe, number).load))))
       ELSE answer

RECURSIVE Pump(_, _, _)
Pump(s, nodes, answer) ==
    IF nodes = {} THEN answer
    ELSE LET n == Min(nodes)
         IN With(SendNext(s, n, answer),
                 LAMBDA next : Pump(s, IF next = answer THEN nodes \ {n} ELSE nodes, next))

Settle(s, switch, sends) ==
    With(switch, LAMBDA before : With(Answer(MoveOn(s, before), sends),
                                     LAMBDA answer : Pump(s, Neighbours[s], answer)))

-----------------------------------------------------------------------------
(* SendAck and ReceiveAck. *)

\* Asks for the packet that is missing, once.
Ask(switch, from) ==
    LET hop == switch.hops[from]
    IN IF hop.asked THEN Answer(switch, <<>>)
       ELSE Answer([switch EXCEPT !.hops[from].asked = TRUE], <<To(from, Nak(hop.expected))>>)

Arrived(hop, arrived) ==
    LET known == Min({arrived, hop.sent})
    IN IF known <= hop.acked THEN hop
       ELSE [hop EXCEPT !.acked = known, !.cursor = Max({@, known})]

\* How far what has come from a neighbour is without a gap.
RECURSIVE Reach(_, _, _, _)
Reach(switch, pipe, from, number) ==
    IF number < AllPackets /\ InRange(switch, pipe, number) /\ from \in Slot(switch, pipe, number).from
    THEN Reach(switch, pipe, from, number + 1) ELSE number

\* The broken rules: an aggregate that becomes complete frees the slot a window behind, or erases the data in the slot a window ahead,
\* whatever is in it; who has contributed stays (figure 6).
Completed(s, before, added, pipe, number, after) ==
    LET ahead == (number + Window) % Slots[pipe]
        isNews == /\ pipe = Aggregation
                  /\ Slot(before, pipe, number).from # Sources(s, pipe)
                  /\ Slot(added, pipe, number).from = Sources(s, pipe)
    IN CASE isNews /\ Mutation = "mode-ii-recycling" -> RecycleTo(after, pipe, number + 1 - Window)
         [] isNews /\ Mutation = "figure-6" -> [after EXCEPT !.pipes[pipe].slots[ahead].load = Nothing]
         [] OTHER -> after

\* SendAck for a packet that has been added up; then what it sets off.
Acknowledge(s, before, added, from, pipe, number) ==
    LET hop == added.hops[from]
        expected == Reach(added, pipe, from, hop.expected)
        inOrder == [added EXCEPT !.hops[from].expected = expected, !.hops[from].asked = FALSE]
        \* A result tells that the contribution to it has arrived, as an ACK would.
        isResult == Primitive = "all_reduce" /\ pipe = Replication
        told(answer) == IF isResult THEN [answer.state EXCEPT !.hops[from] = Arrived(@, @.expected)]
                        ELSE answer.state
    IN With(IF number = hop.expected
            THEN Answer(inOrder, <<To(from, Ack(expected - 1))>>) ELSE Ask(added, from),
            LAMBDA answer : With(Settle(s, told(answer), answer.sends),
            LAMBDA settled : Answer(Completed(s, before, added, pipe, number, settled.state), settled.sends)))

TakesKnownData(s, switch, from, frame) ==
    LET number == frame.number
        pipe == PipeFrom(s, from)
        hop == switch.hops[from]
    IN IF number < hop.expected \/ number < switch.pipes[pipe].start
       THEN Answer(switch, <<To(from, Ack(hop.expected - 1))>>)
       \* Ahead of the range: the sender's time-out sees to it.
       ELSE IF ~InRange(switch, pipe, number) THEN Answer(switch, <<>>)
       ELSE With(Add(switch, pipe, number, from, frame.load),
                 LAMBDA added : Acknowledge(s, switch, added, from, pipe, number))

TakesData(s, switch, from, frame) ==
    IF ~switch.known /\ frame.number # 0 THEN Ask(switch, from)
    ELSE With([switch EXCEPT !.known = TRUE], LAMBDA known : TakesKnownData(s, known, from, frame))

TakesAnswer(s, switch, from, frame) ==
    LET hop == IF frame.kind = "ack" THEN Arrived(switch.hops[from], frame.number + 1)
               ELSE LET told == Arrived(switch.hops[from], frame.number)
                    IN [told EXCEPT !.cursor = told.acked]
    IN Settle(s, [switch EXCEPT !.hops[from] = hop], <<>>)

-----------------------------------------------------------------------------

SwitchTakes(s, switch, from, frame) ==
    IF frame.kind = "data" THEN TakesData(s, switch, from, frame) ELSE TakesAnswer(s, switch, from, frame)

SwitchWaits(s, switch) == {n \in Neighbours[s] : switch.hops[n].acked < switch.hops[n].sent}
SwitchExpires(s, switch, to) == Settle(s, [switch EXCEPT !.hops[to].cursor = switch.hops[to].acked], <<>>)

Init == InitWith(NewSwitch)
Next == NextWith(SwitchTakes, SwitchWaits, SwitchExpires)

\* Something happens as long as something can, and no time-out is put off for ever.
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
        /\ \A c \in Channels : SF_vars(Timer(c, SwitchWaits, SwitchExpires))

EndIsReached == <>IsEnd(SwitchWaits)

=============================================================================
