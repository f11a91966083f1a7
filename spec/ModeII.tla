------------------------------- MODULE ModeII -------------------------------
(***************************************************************************)
(* A switch in Mode-II, connection translated (EPIC 4.3, algorithm 1), with *)
(* our repairs: a valid range of twice the window, a Reduce that recycles  *)
(* by the receiver's ACK, answers to what all have acknowledged, and NAKs  *)
(* of a Broadcast that ask for nothing later than the slowest misses.      *)
(***************************************************************************)
EXTENDS Epic

ASSUME Mutation \in {"none", "same-message", "no-duplicate-check", "window-short", "answers-next-slot"}

Slots == IF Mutation = "window-short" THEN Window + 1 ELSE 2 * Window

IsTreeRoot(s) == Parent[s] = None

\* Where packets come from that are added up, and where the aggregate goes; the tree's root turns it round.
Sources(s) ==
    CASE Primitive = "all_reduce" -> Children[s]
      [] Primitive = "reduce" -> Neighbours[s] \ {TowardRoot[s]}
      [] Primitive = "broadcast" -> {}
AggregateOuts(s) ==
    CASE Primitive = "reduce" -> {TowardRoot[s]}
      [] IsTreeRoot(s) -> Children[s]
      [] OTHER -> {Parent[s]}

\* Where packets go that are copied.
CopyOuts(s) == IF Primitive = "broadcast" THEN Neighbours[s] \ {TowardRoot[s]} ELSE Children[s]

Free == [from |-> {}, isControl |-> FALSE, load |-> Nothing]

NewSwitch(s) ==
    [known |-> FALSE,       \* the control message has been here
     progress |-> 0,        \* packets before it are aggregated, or in a Reduce acknowledged
     slots |-> [i \in 0 .. Slots - 1 |-> Free],
     acked |-> [n \in Neighbours[s] |-> 0]]

-----------------------------------------------------------------------------
(* RecycleBuffer.  The range is what is less than a window from `progress`. *)

InRange(switch, number) ==
    \/ switch.progress - Window <= number /\ number < switch.progress + Window
    \/ Mutation = "window-short"

Advance(switch, progress) ==
    IF progress <= switch.progress THEN switch
    ELSE LET start == switch.progress - Window
             end == Min({progress - Window, start + Slots})
             freed == {number % Slots : number \in start .. end - 1}
         IN [switch EXCEPT !.progress = progress,
                           !.slots = [i \in DOMAIN @ |-> IF i \in freed THEN Free ELSE @[i]]]

-----------------------------------------------------------------------------
(* Data. *)

Aggregate(s, switch, from, frame) ==
    LET number == frame.number
        index == number % Slots
        slot == switch.slots[index]
        isControl == number = 0
        \* What a duplicate is answered with.
        again == IF Mutation = "answers-next-slot" THEN switch.slots[(number + 1) % Slots].load ELSE slot.load
        outs == AggregateOuts(s)
    IN IF Primitive = "reduce" /\ number < switch.progress
       THEN \* The receiver has it: whoever asks missed the ACK.
            Answer(switch, <<To(from, Ack(Min({Packets, switch.progress - 1})))>>)
       ELSE IF ~InRange(switch, number) THEN Answer(switch, <<>>)
       ELSE IF from \in slot.from /\ Mutation # "no-duplicate-check"
       THEN IF slot.from # Sources(s) THEN Answer(switch, <<>>)
            ELSE Answer(switch, ToAll(IF Primitive = "all_reduce" /\ IsTreeRoot(s) THEN {from} ELSE outs,
                                      Data(number, again)))
       ELSE IF slot.from # {} /\ slot.isControl # isControl THEN Answer(switch, <<>>)
       ELSE LET load == IF slot.from = {} THEN frame.load ELSE Plus(slot.load, frame.load)
                all == slot.from \cup {from}
                held == [from |-> all, isControl |-> isControl, load |-> load]
                next == [switch EXCEPT !.slots[index] = held]
            IN IF all # Sources(s) THEN Answer(next, <<>>)
               ELSE Answer(IF Primitive = "all_reduce" THEN Advance(next, number + 1) ELSE next,
                           ToAll(outs, Data(number, load)))

AckedByAll(s, switch) == Min({switch.acked[n] : n \in CopyOuts(s)})

Replicate(s, switch, from, frame) ==
    IF Primitive = "broadcast" /\ frame.number < AckedByAll(s, switch)
    THEN \* All have it: whoever sends it again missed the ACK.
         Answer(switch, <<To(from, Ack(AckedByAll(s, switch) - 1))>>)
    ELSE Answer(switch, ToAll(CopyOuts(s), frame))

TakesData(s, switch, from, frame) ==
    IF ~switch.known /\ frame.number # 0 THEN Answer(switch, <<>>)
    ELSE With([switch EXCEPT !.known = TRUE],
              LAMBDA knowing : IF from \in Sources(s) THEN Aggregate(s, knowing, from, frame)
                                                      ELSE Replicate(s, knowing, from, frame))

-----------------------------------------------------------------------------
(* Acknowledges. *)

TakesReduceAnswer(s, switch, frame, arrived) ==
    LET from == TowardRoot[s]
        isNews == arrived > switch.acked[from]
        next == IF isNews THEN Advance([switch EXCEPT !.acked[from] = arrived], arrived) ELSE switch
        acks == IF isNews THEN ToAll(Sources(s), Ack(arrived - 1)) ELSE <<>>
        naks == IF frame.kind = "nak" THEN ToAll(Sources(s), frame) ELSE <<>>
    IN Answer(next, acks \o naks)

TakesBroadcastAnswer(s, switch, from, frame, arrived) ==
    LET next == [switch EXCEPT !.acked[from] = Max({@, arrived})]
        before == AckedByAll(s, switch)
        after == AckedByAll(s, next)
        sender == TowardRoot[s]
        acks == IF after > before THEN <<To(sender, Ack(after - 1))>> ELSE <<>>
        \* A NAK acknowledges what is before it, on behalf of all.
        naks == IF frame.kind = "nak" THEN <<To(sender, Nak(Min({frame.number, after})))>> ELSE <<>>
    IN Answer(next, acks \o naks)

TakesAnswer(s, switch, from, frame) ==
    LET arrived == IF frame.kind = "ack" THEN frame.number + 1 ELSE frame.number
    IN IF ~switch.known THEN Answer(switch, <<>>)
       ELSE CASE Primitive = "all_reduce" ->
                    \* Reflected: the result's arrival acknowledges the contribution (figure 7d).
                    Answer(switch, <<To(from, frame)>>)
              [] Primitive = "reduce" -> TakesReduceAnswer(s, switch, frame, arrived)
              [] Primitive = "broadcast" -> TakesBroadcastAnswer(s, switch, from, frame, arrived)

-----------------------------------------------------------------------------

SwitchTakes(s, switch, from, frame) ==
    IF frame.kind = "data" THEN TakesData(s, switch, from, frame) ELSE TakesAnswer(s, switch, from, frame)

\* The switch keeps no reliability of its own.
SwitchWaits(s, switch) == {}
SwitchExpires(s, switch, to) == Answer(switch, <<>>)

Init == InitWith(NewSwitch)
Next == NextWith(SwitchTakes, SwitchWaits, SwitchExpires)

\* Something happens as long as something can, and no time-out is put off for ever.
Spec == Init /\ [][Next]_vars /\ WF_vars(Next)
        /\ \A c \in Channels : SF_vars(Timer(c, SwitchWaits, SwitchExpires))

EndIsReached == <>IsEnd(SwitchWaits)

=============================================================================
