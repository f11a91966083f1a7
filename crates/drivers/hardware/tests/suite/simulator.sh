#!/bin/sh
# In a simulator's place: each frame that it is told leaves over the edge that it came by. The second word of a group says what else it does.
n=0
while read -r word edge digits; do
  case $word in
    group)
      does=$digits
      test "$does" = refuse && echo "error expected another group" ;;
    frame)
      answers="$answers
in $n 1$n 2$n
done $n accepted
out $edge 3$n 4$n $digits"
      n=$((n + 1)) ;;
    run)
      case $does in
        drop) printf 'done 1 stale\nlost 0\nrefused 1\ndone 7 of-its-own\n' ;;
        fail) echo 'fault a decision of no frame' ;;
        end) exit 1 ;;
      esac
      echo "$answers"
      n=0 answers= ;;
  esac
  echo end 0
done
