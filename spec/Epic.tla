-------------------------------- MODULE Epic --------------------------------
(***************************************************************************)
(* What both modes share: the tree, the frames, the ranks, and a network   *)
(* that keeps frames in order on each link, except for those that it       *)
(* loses, copies or delays.  A mode says what a switch does.               *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, Bags, TLC

CONSTANTS
    Tree,       \* "star-2" or "tree-3-2"
    Primitive,  \* "all_reduce", "reduce" to rank 0, or "broadcast" from rank 0
    Packets,    \* packets of data; the control message goes before them
    Window,     \* packets that a rank may have in flight
    Losses,     \* 1 if a frame may be lost, else 0
    Copies,     \* 1 if a copy of a frame may arrive at any later time, else 0
    Delays,     \* 1 if a frame may be late, for as long as it likes, else 0
    Mutation    \* the rule that switches break, or "none"

ASSUME {Losses, Copies, Delays} \subseteq {0, 1}
ASSUME Primitive \in {"all_reduce", "reduce", "broadcast"}

\* `Then` of a value that is computed once; TLC computes an operator's argument wherever it is used.
With(value, Then(_)) == CHOOSE y \in {Then(x) : x \in {value}} : TRUE

Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(S) == CHOOSE x \in S : \A y \in S : x >= y

-----------------------------------------------------------------------------
(* The tree.  Ranks are its leaves, numbered from zero. *)

None == -1

Parent ==
    CASE Tree = "star-2" -> 0 :> 2 @@ 1 :> 2 @@ 2 :> None
      [] Tree = "tree-3-2" -> 0 :> 4 @@ 1 :> 4 @@ 2 :> 5 @@ 3 :> 5 @@ 4 :> 6 @@ 5 :> 6 @@ 6 :> None

Nodes == DOMAIN Parent
Children == [n \in Nodes |-> {m \in Nodes : Parent[m] = n}]
Neighbours == [n \in Nodes |-> Children[n] \cup ({Parent[n]} \ {None})]
Ranks == {n \in Nodes : Children[n] = {}}
Switches == Nodes \ Ranks
Channels == {c \in Nodes \X Nodes : c[2] \in Neighbours[c[1]]}

\* The rank that receives in a Reduce and sends in a Broadcast.
Root == 0

RECURSIVE Below(_)
Below(n) == {n} \cup UNION {Below(m) : m \in Children[n]}

\* The neighbour of a switch that leads to Root.
TowardRoot ==
    [s \in Switches |->
        IF Root \in Below(s) THEN CHOOSE m \in Children[s] : Root \in Below(m) ELSE Parent[s]]

-----------------------------------------------------------------------------
(* Packets are numbered from zero, which is the control message.  What a   *)
(* packet carries is which ranks' which packets are in it, and how often:  *)
(* a bag of <<rank, number>>.  The wrong packet's data is as visible as a  *)
(* rank that is left out or counted twice.                                 *)

AllPackets == Packets + 1

Nothing == EmptyBag
Plus(a, b) == a (+) b

\* The packets of that number of some ranks, each once; the control message has no data.
Packet(ranks, number) == IF number = 0 THEN Nothing ELSE SetToBag(ranks \X {number})

\* What a rank puts in, and what must come out.
Own(r, number) == Packet({r}, number)
Result(number) == Packet(IF Primitive = "broadcast" THEN {Root} ELSE Ranks, number)

Data(number, load) == [kind |-> "data", number |-> number, load |-> load]
Ack(number) == [kind |-> "ack", number |-> number, load |-> Nothing]
Nak(number) == [kind |-> "nak", number |-> number, load |-> Nothing]

\* A node's answer to what happens: its next state, and the frames that it sends.
Answer(state, sends) == [state |-> state, sends |-> sends]
To(node, frame) == [to |-> node, frame |-> frame]

\* The same frame to several neighbours.
RECURSIVE ToAll(_, _)
ToAll(nodes, frame) ==
    IF nodes = {} THEN <<>>
    ELSE LET n == Min(nodes) IN <<To(n, frame)>> \o ToAll(nodes \ {n}, frame)

-----------------------------------------------------------------------------
(* A rank: CommLib above a queue pair that goes back N.  All numbers are   *)
(* "one past": everything before `acked` is known to have arrived.         *)

Sends(r) == Primitive = "all_reduce" \/ ((Primitive = "broadcast") <=> (r = Root))
Receives(r) == Primitive = "all_reduce" \/ ((Primitive = "reduce") <=> (r = Root))

NewRank(r) ==
    [begun |-> ~Sends(r), acked |-> 0, next |-> 0, sent |-> 0,
     expected |-> 0, asked |-> FALSE, got |-> <<>>]

\* Sends what flow control allows: in an AllReduce, nothing before the result of the packet a window earlier (4.2). The broken rule:
\* there too, ACKs alone hold ranks back (figure 6).
Pour(r, rank, before) ==
    LET limit == IF Sends(r)
                 THEN Min({AllPackets, rank.acked + Window}
                          \cup IF Receives(r) /\ Mutation # "figure-6" THEN {rank.expected + Window} ELSE {})
                 ELSE 0
        next == Max({rank.next, limit})
        frames == [i \in 1 .. next - rank.next |->
                      LET number == rank.next + i - 1
                          \* The broken rule: the data of the first packet in every packet.
                          data == IF Mutation = "same-message" THEN Min({number, 1}) ELSE number
                      IN To(Parent[r], Data(number, Own(r, data)))]
    IN Answer([rank EXCEPT !.next = next, !.sent = Max({rank.sent, next})], before \o frames)

RankBegins(r, rank) == Pour(r, [rank EXCEPT !.begun = TRUE], <<>>)

RankTakesData(r, rank, frame) ==
    LET reply(f) == <<To(Parent[r], f)>>
        load == IF Primitive = "reduce" THEN Plus(frame.load, Own(r, frame.number)) ELSE frame.load
    IN CASE frame.number < rank.expected -> Answer(rank, reply(Ack(rank.expected - 1)))
         [] frame.number > rank.expected /\ rank.asked -> Answer(rank, <<>>)
         [] frame.number > rank.expected ->
                Answer([rank EXCEPT !.asked = TRUE], reply(Nak(rank.expected)))
         [] OTHER ->
                Pour(r, [rank EXCEPT !.expected = @ + 1, !.asked = FALSE, !.got = Append(@, load)],
                     reply(Ack(frame.number)))

RankTakesAnswer(r, rank, frame) ==
    LET number == frame.number
        outstanding == rank.acked <= number /\ number < rank.sent
    IN CASE frame.kind = "ack" /\ outstanding ->
                Pour(r, [rank EXCEPT !.acked = number + 1, !.next = Max({@, number + 1})], <<>>)
         [] frame.kind = "nak" /\ outstanding ->
                Pour(r, [rank EXCEPT !.acked = number, !.next = number], <<>>)
         \* The one who asks has been overtaken by its own ACK.
         [] frame.kind = "nak" /\ number < rank.acked /\ rank.acked < rank.sent ->
                Pour(r, [rank EXCEPT !.next = rank.acked], <<>>)
         [] OTHER -> Answer(rank, <<>>)

RankTakes(r, rank, frame) ==
    IF frame.kind = "data" THEN RankTakesData(r, rank, frame) ELSE RankTakesAnswer(r, rank, frame)

\* The time-out: everything that is not acknowledged goes out again.
RankExpires(r, rank) == Pour(r, [rank EXCEPT !.next = rank.acked], <<>>)

RankIsDone(r, rank) ==
    /\ Sends(r) => rank.acked = AllPackets
    /\ Receives(r) => rank.expected = AllPackets

-----------------------------------------------------------------------------
(* The network.  `node` is what nodes hold, `wire` what links carry, `late` *)
(* what arrives some time, `left` what may still go wrong.                 *)

VARIABLES node, wire, late, left
vars == <<node, wire, late, left>>

InitWith(NewSwitch(_)) ==
    /\ node = [n \in Nodes |-> IF n \in Ranks THEN NewRank(n) ELSE NewSwitch(n)]
    /\ wire = [c \in Channels |-> <<>>]
    /\ late = {}
    /\ left = [losses |-> Losses, copies |-> Copies, delays |-> Delays]

\* What follows on `wires` from a node's answer.
Follow(n, given, wires) == \E answer \in {given} :
    /\ node' = [node EXCEPT ![n] = answer.state]
    /\ wire' = [c \in Channels |->
                   IF c[1] # n THEN wires[c]
                   ELSE LET mine == SelectSeq(answer.sends, LAMBDA send : send.to = c[2])
                        IN wires[c] \o [i \in 1 .. Len(mine) |-> mine[i].frame]]

Begin(r) ==
    /\ ~node[r].begun
    /\ Follow(r, RankBegins(r, node[r]), wire)
    /\ UNCHANGED <<late, left>>

Take(c, frame, SwitchTakes(_, _, _, _), wires) ==
    LET n == c[2]
    IN Follow(n, IF n \in Ranks THEN RankTakes(n, node[n], frame)
                                ELSE SwitchTakes(n, node[n], c[1], frame), wires)

Arrive(c, SwitchTakes(_, _, _, _)) ==
    /\ wire[c] # <<>>
    /\ Take(c, Head(wire[c]), SwitchTakes, [wire EXCEPT ![c] = Tail(@)])
    /\ UNCHANGED <<late, left>>

ArriveLate(l, SwitchTakes(_, _, _, _)) ==
    /\ Take(l.channel, l.frame, SwitchTakes, wire)
    /\ late' = late \ {l}
    /\ UNCHANGED left

Copy(c, SwitchTakes(_, _, _, _)) ==
    /\ wire[c] # <<>> /\ left.copies > 0
    /\ Take(c, Head(wire[c]), SwitchTakes, [wire EXCEPT ![c] = Tail(@)])
    /\ late' = late \cup {[why |-> "copy", channel |-> c, frame |-> Head(wire[c])]}
    /\ left' = [left EXCEPT !.copies = @ - 1]

Delay(c) ==
    /\ wire[c] # <<>> /\ left.delays > 0
    /\ wire' = [wire EXCEPT ![c] = Tail(@)]
    /\ late' = late \cup {[why |-> "delay", channel |-> c, frame |-> Head(wire[c])]}
    /\ left' = [left EXCEPT !.delays = @ - 1]
    /\ UNCHANGED node

Lose(c) ==
    /\ wire[c] # <<>> /\ left.losses > 0
    /\ wire' = [wire EXCEPT ![c] = Tail(@)]
    /\ left' = [left EXCEPT !.losses = @ - 1]
    /\ UNCHANGED <<node, late>>

\* Time-outs are longer than the life of any frame that is not late.
IsIdle == (\A c \in Channels : wire[c] = <<>>) /\ (\A r \in Ranks : node[r].begun)

\* The neighbours from which a node waits for an acknowledge.
Waits(n, SwitchWaits(_, _)) ==
    IF n \in Ranks THEN (IF node[n].acked < node[n].sent THEN {Parent[n]} ELSE {})
                   ELSE SwitchWaits(n, node[n])

Expire(n, to, SwitchExpires(_, _, _)) ==
    /\ Follow(n, IF n \in Ranks THEN RankExpires(n, node[n]) ELSE SwitchExpires(n, node[n], to), wire)
    /\ UNCHANGED <<late, left>>

Timer(c, SwitchWaits(_, _), SwitchExpires(_, _, _)) ==
    /\ IsIdle
    /\ c[2] \in Waits(c[1], SwitchWaits)
    /\ Expire(c[1], c[2], SwitchExpires)

IsEnd(SwitchWaits(_, _)) ==
    /\ IsIdle /\ late = {}
    /\ \A n \in Nodes : Waits(n, SwitchWaits) = {}
    /\ \A r \in Ranks : RankIsDone(r, node[r])

\* A step that changes nothing is none, so that who can only wait in vain is stuck.
NextWith(SwitchTakes(_, _, _, _), SwitchWaits(_, _), SwitchExpires(_, _, _)) ==
    \/ /\ \/ \E r \in Ranks : Begin(r)
          \/ \E c \in Channels : Arrive(c, SwitchTakes) \/ Copy(c, SwitchTakes) \/ Delay(c) \/ Lose(c)
          \/ \E l \in late : ArriveLate(l, SwitchTakes)
          \/ \E c \in Channels : Timer(c, SwitchWaits, SwitchExpires)
       /\ vars' # vars
    \/ IsEnd(SwitchWaits) /\ UNCHANGED vars

-----------------------------------------------------------------------------
(* What must hold. *)

\* A rank that receives gets what a single computer would have computed: of every rank the packet of that number, once.
ResultsAreRight ==
    \A r \in Ranks : \A i \in 1 .. Len(node[r].got) : node[r].got[i] = Result(i - 1)

=============================================================================
