// Package shell writes command lines as a person types them.
package shell

import "strings"

// Quote returns an argument in the form that stands for it in a shell's command line. Letters
// and digits of ASCII and the characters "-_./:@%+=," need no quotes, nor do those in plain.
func Quote(arg, plain string) string {
	if arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+=,", r) || strings.ContainsRune(plain, r))
	}) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
