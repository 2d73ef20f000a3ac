package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/parley-server/parley"
)

// maxFolder is the most bytes in the name of a user's folder. Some file systems that
// encrypt names allow 143.
const maxFolder = 120

// UserFolder is the name of the folder that holds what belongs to a user. Two users never
// have the same name, even where the file system ignores case or Unicode forms. The name is
// safe as one element of a path on every system.
//
// An id of lower-case letters, digits and the characters - _ @ + . is its own name. An
// upper-case letter becomes ! and its lower-case form, and every other byte % and two
// hexadecimal digits. The same is done with a dot or dash at the beginning, a dot at the
// end, and names that Windows reserves. A user of an organisation has "user=org". A name
// that would be too long is cut, and ends with == and its SHA-256.
func UserFolder(p parley.Principal) string {
	name := escaped(p.User)
	if p.Org != "" {
		name += "=" + escaped(p.Org)
	}
	if len(name) <= maxFolder {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:40] + "==" + hex.EncodeToString(sum[:])
}

func escaped(id string) string {
	if id == "" {
		return "%" // nothing else ends with it
	}
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z' && (i > 0 || !reserved(id)), '0' <= c && c <= '9', c == '_', c == '@', c == '+':
			b.WriteByte(c)
		case c == '-' && i > 0, c == '.' && i > 0 && i < len(id)-1:
			b.WriteByte(c)
		case 'A' <= c && c <= 'Z':
			b.WriteByte('!')
			b.WriteByte(c + 'a' - 'A')
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// devices are names that Windows gives to devices, in any case and with any ending.
var devices = []string{"con", "prn", "aux", "nul"}

var port = regexp.MustCompile(`^(?:com|lpt)[0-9]$`)

// reserved reports whether Windows would take a file of that name for a device.
func reserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToLower(name), ".")
	base = strings.TrimRight(base, " ")
	return slices.Contains(devices, base) || port.MatchString(base)
}

// validName matches the names that a workspace may have. It excludes the files beside
// workspaces, such as .mcp.json, and names that only some file systems allow.
var validName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,62}[A-Za-z0-9_-])?$`)

// CheckName says what is wrong with the name of a workspace, or nil.
func CheckName(name string) error {
	switch {
	case !validName.MatchString(name):
		return parley.Errorf(parley.CodeInvalid, "%q cannot be a workspace's name", parley.Cut(name, 80)).
			WithHint("use at most 64 letters, digits, spaces and . _ -, beginning with a letter or digit, and not ending with a dot or space")
	case reserved(name):
		return parley.Errorf(parley.CodeInvalid, "%q cannot be a workspace's name: some systems reserve it", name).WithHint("use another name")
	}
	return nil
}
