# A hook before each call of add_guest. Exit code 2 denies the call, and the model reads why.
if grep -qi '"tool_input":{"name":"mallory"}'; then
	echo "Mallory is not welcome." >&2
	exit 2
fi
