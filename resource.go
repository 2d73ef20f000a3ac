package parley

import (
	"strings"
	"unicode/utf8"
)

const (
	// MaxResources is how many resources one message may have.
	MaxResources = 10
	// MaxURI is the longest URI of a resource, in bytes.
	MaxURI = 2 << 10
)

// ResourceRef names a resource of an MCP server: a text or file that a user attaches to a
// message.
type ResourceRef struct {
	// Server is the server's name, as its tools and slash commands have it.
	Server string `json:"server"`
	URI    string `json:"uri"`
	// Title is shown to people instead of the URI. Whoever attaches the resource says it, usually
	// with the name from the list of resources. No model reads it.
	Title string `json:"title,omitempty"`
}

// Is reports whether r and s name the same resource, whatever their titles.
func (r ResourceRef) Is(s ResourceRef) bool { return r.Server == s.Server && r.URI == s.URI }

// String is r as a message mentions it.
func (r ResourceRef) String() string { return "@" + r.Server + ":" + r.URI }

// Check reports what is wrong with r in itself. The error names the field of r.
func (r ResourceRef) Check() *Error {
	switch {
	case !isServerName(r.Server):
		return Errorf(CodeInvalid, "%q cannot be the name of an MCP server", Cut(r.Server, 80)).WithField("server").
			WithHint("the session's list of resources has the names of its servers")
	case r.URI == "":
		return Errorf(CodeInvalid, "a resource has a URI, and this one is empty").WithField("uri")
	case len(r.URI) > MaxURI:
		return Errorf(CodeTooLarge, "the URI of a resource has %d bytes; at most %d are allowed", len(r.URI), MaxURI).WithField("uri")
	case !utf8.ValidString(r.URI) || strings.ContainsFunc(r.URI, isControl):
		return Errorf(CodeInvalid, "the URI of a resource has control characters or is not UTF-8").WithField("uri")
	case utf8.RuneCountInString(r.Title) > MaxTitle:
		return Errorf(CodeTooLarge, "the title of a resource is longer than %d characters", MaxTitle).WithField("title")
	case !utf8.ValidString(r.Title) || strings.ContainsFunc(r.Title, isControl):
		return Errorf(CodeInvalid, "the title of a resource has control characters or is not UTF-8").WithField("title")
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029 }

// Resource is what a server offers to be attached.
type Resource struct {
	Server string `json:"server"`
	// URI is the resource's. Of a template it has names in braces, such as {path}, in place of
	// which somebody writes values (RFC 6570).
	URI         string `json:"uri"`
	Template    bool   `json:"template,omitempty"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	MediaType   string `json:"media_type,omitempty"`
	Size        int64  `json:"size,omitempty"` // bytes, as the server says; 0: it does not say
}

// ResourceList is a page of the resources that a session's messages may have.
type ResourceList struct {
	Resources []Resource `json:"resources" nullable:"false"` // by server and URI
	// Failed says which servers could not be asked. The resources are those of the others.
	Failed []FailedServer `json:"failed,omitempty"`
	// Cut names servers that have more resources than are listed. What is not listed can be
	// attached as well.
	Cut  []string `json:"cut,omitempty"`
	Next string   `json:"next,omitempty" doc:"The cursor of the next page; left out on the last."`
}

// FailedServer is an MCP server that did not list its resources.
type FailedServer struct {
	Server string    `json:"server"`
	Error  ErrorInfo `json:"error"`
	// Login is where the user logs in, if that is why. It is the link that a call of the server's
	// tools would show, and is of use only to this user.
	Login string `json:"login,omitempty"`
}

// Mentions are the resources that a message may mention, as @server:uri, in their order and
// each once. Before the @ there is the beginning of the message or white space, or a bracket or
// quotation mark. The URI has a scheme and ends at white space; punctuation that ends a sentence
// is no part of it. Whether there is such a server is for the reader to find out: of everything
// else, such as an address for e-mail, the message just says it.
func Mentions(message string) (list []ResourceRef) {
	seen := map[ResourceRef]bool{}
	for at := 0; ; {
		i := strings.IndexByte(message[at:], '@')
		if i < 0 {
			return list
		}
		at += i + 1
		if before, _ := utf8.DecodeLastRuneInString(message[:at-1]); at > 1 && !strings.ContainsRune(" \t\r\n\u00a0([{<\"'`“‘«,;", before) {
			continue
		}
		word := message[at:]
		if end := strings.IndexFunc(word, func(r rune) bool { return r == ' ' || r == '\u00a0' || isControl(r) }); end >= 0 {
			word = word[:end]
		}
		server, uri, ok := strings.Cut(word, ":")
		ref := ResourceRef{Server: server, URI: trimmed(uri)}
		if !ok || !isServerName(server) || !hasScheme(ref.URI) || len(ref.URI) > MaxURI || seen[ref] {
			continue
		}
		seen[ref] = true
		list = append(list, ref)
		at += len(server) + 1 + len(ref.URI)
	}
}

// trimmed is a URI without what belongs to the sentence around it.
func trimmed(uri string) string {
	for {
		r, n := utf8.DecodeLastRuneInString(uri)
		open, closes := map[rune]string{')': "(", ']': "[", '}': "{"}[r]
		switch {
		case n == 0:
			return uri
		case closes && strings.Count(uri, open) >= strings.Count(uri, string(r)):
			return uri // it closes what was opened in the URI
		case !closes && !strings.ContainsRune(".,;:!?>\"'`”’»", r):
			return uri
		}
		uri = uri[:len(uri)-n]
	}
}

func isServerName(name string) bool {
	return name != "" && len(name) <= 32 && isLetter(name[0]) && !strings.ContainsFunc(name, func(r rune) bool {
		return r > 0x7f || !isLetter(byte(r)) && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// hasScheme reports whether text begins like a URI, and has more than that.
func hasScheme(text string) bool {
	scheme, rest, ok := strings.Cut(text, ":")
	return ok && rest != "" && scheme != "" && isLetter(scheme[0]) && !strings.ContainsFunc(scheme, func(r rune) bool {
		return r > 0x7f || !isLetter(byte(r)) && (r < '0' || r > '9') && !strings.ContainsRune("+.-", r)
	})
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }
