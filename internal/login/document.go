package login

import (
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// documented is the client of a server that authorization servers can look up: its id is the
// address of a document about it (OAuth Client ID Metadata Document,
// draft-ietf-oauth-client-id-metadata-document). Such an address begins with https. redirect
// is the address of [Page].
func documented(redirect string) (who client, ok bool) {
	base := strings.TrimSuffix(redirect, Page)
	_, ok = Client(base)
	return client{ID: base + Document, Redirect: redirect, Style: style(nil, "", "none")}, ok
}

// ClientInfo is the document at [Document]. Anybody may read it.
type ClientInfo struct {
	ID string `json:"client_id"`
	oauthex.ClientRegistrationMetadata
}

// Client is what authorization servers read about a server with the address base. ok is
// false where they cannot read it, since the address does not begin with https.
func Client(base string) (c ClientInfo, ok bool) {
	return ClientInfo{base + Document, metadata(base+Page, "none", "web", nil)}, strings.HasPrefix(base, "https://")
}

// metadata is what authorization servers are told about us.
func metadata(redirect, way, kind string, scopes []string) oauthex.ClientRegistrationMetadata {
	return oauthex.ClientRegistrationMetadata{
		RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: way, GrantTypes: []string{"authorization_code", "refresh_token"},
		ResponseTypes: []string{"code"}, ClientName: "Parley", ApplicationType: kind, Scope: strings.Join(scopes, " "),
	}
}
