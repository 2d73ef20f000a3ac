# Adds a line to the guest list. The message with the call comes on standard input.
name=$(sed -n 's/.*"input":{"name":"\([^"]*\)"}.*/\1/p')
[ -n "$name" ] || { echo '{"error":{"message":"there is no name"}}'; exit 2; }
echo "$name" >>"$GUESTS" && echo "$name is on the list."
