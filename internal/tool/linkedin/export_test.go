package linkedin

import "net/http"

// What tests look at.
var (
	Escaped = escaped
	Shown   = shown
	Encoded = encoded
	Plain   = plain
)

// Over makes requests go through rt.
func (t *Toolset) Over(rt http.RoundTripper) { t.client.Transport = rt }
