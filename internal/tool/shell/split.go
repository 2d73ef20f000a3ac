package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Longer lines, and those with more brackets, are not parsed: sessions are locked meanwhile, and the
// parser's time grows faster than the depth.
const (
	maxParsed   = 8 << 10
	maxBrackets = 100
)

// Command is a command of a command line.
type Command []Word

// Word is a word of a command.
type Word struct {
	Text  string // what the program gets; if that is not known, what the line says
	Known bool   // the shell does not expand it
}

// Split returns the commands of a command line. plain says that they are all that
// it does, and that each word is known: there is no expansion, substitution, assignment or control
// structure, and no redirection but those to /dev/null and of errors to the output. Of a line that is not plain, the commands that
// were found are returned, to be compared with rules that forbid. The parser is that of shfmt.
func Split(line string) (commands []Command, plain bool) {
	if len(line) > maxParsed || strings.Count(line, "(")+strings.Count(line, "{")+strings.Count(line, "`") > maxBrackets {
		return nil, false
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, false
	}
	plain = len(file.Stmts) > 0 && allPlain(file.Stmts)
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			var words Command
			for _, w := range c.Args {
				text, known := literal(w)
				if !known {
					text = source(line, w)
				}
				words = append(words, Word{text, known})
			}
			commands = append(commands, words)
		}
		return true
	})
	return commands, plain && len(commands) > 0
}

func allPlain(list []*syntax.Stmt) bool {
	return !slices.ContainsFunc(list, func(s *syntax.Stmt) bool { return !isPlain(s) })
}

func isPlain(s *syntax.Stmt) bool {
	if s.Coprocess {
		return false
	}
	for _, r := range s.Redirs {
		to, known := literal(r.Word)
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrIn:
			if !known || to != "/dev/null" {
				return false
			}
		case syntax.DplOut:
			if !known || to != "1" && to != "2" {
				return false
			}
		default:
			return false
		}
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		if len(c.Assigns) > 0 || len(c.Args) == 0 {
			return false
		}
		return !slices.ContainsFunc(c.Args, func(w *syntax.Word) bool { _, known := literal(w); return !known })
	case *syntax.BinaryCmd:
		return isPlain(c.X) && isPlain(c.Y)
	case *syntax.Subshell:
		return allPlain(c.Stmts)
	case *syntax.Block:
		return allPlain(c.Stmts)
	}
	return false
}

// literal is the text of a word that the shell does not expand.
func literal(w *syntax.Word) (string, bool) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			text, known := unquoted(p.Value, i == 0)
			if !known {
				return "", false
			}
			b.WriteString(text)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, in := range p.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok {
					return "", false
				}
				text, known := inQuotes(lit.Value)
				if !known {
					return "", false
				}
				b.WriteString(text)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// unquoted is a literal outside quotes. It is not known if the shell would look for file names, expand
// braces, or put in somebody's folder.
func unquoted(s string, first bool) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case strings.IndexByte("*?[]{}!", c) >= 0, c == '~' && (i == 0 && first || i > 0 && (s[i-1] == '=' || s[i-1] == ':')), c == '$', c == '`':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// inQuotes is a literal in double quotes.
func inQuotes(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && strings.IndexByte("\\\"$`\n", s[i+1]) >= 0:
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case c == '`', c == '$':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

func source(line string, w *syntax.Word) string {
	from, to := int(w.Pos().Offset()), int(w.End().Offset())
	if from < 0 || to > len(line) || from > to {
		return "?"
	}
	return line[from:to]
}

// String writes a command as rules see it. A word that a shell would read as something else, such as several
// words, a pattern, an assignment or the beginning of a control structure, is quoted. So the text means this
// command and no other.
func (c Command) String() string {
	texts := make([]string, len(c))
	for i, w := range c {
		texts[i] = w.Text
		if w.Known && !w.plain(i == 0) {
			texts[i] = "'" + strings.ReplaceAll(w.Text, "'", `'\''`) + "'"
		}
	}
	return strings.Join(texts, " ")
}

// plain reports whether a shell reads the word without quotes as it is.
func (w Word) plain(first bool) bool {
	if w.Text == "" || strings.ContainsFunc(w.Text, func(r rune) bool { return !harmless(r) }) {
		return false
	}
	if first && (strings.Contains(w.Text, "=") || slices.Contains(reserved, w.Text)) {
		return false
	}
	text, known := unquoted(w.Text, true)
	return known && text == w.Text
}

// reserved are the words that are no command where one begins.
var reserved = strings.Fields("case coproc declare do done elif else esac export fi for function if in let local nameref readonly select then time typeset until while")

func harmless(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-./:=,@%+^~", r) || r >= 0xa1
}
