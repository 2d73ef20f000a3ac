//go:build unix

package mcp

import (
	"net/url"
	"path"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Roots are deprecated from protocol version 2026-07-28 on, and work for at least a year from then:
// https://modelcontextprotocol.io/seps/2577-deprecate-roots-sampling-and-logging. Servers of both
// eras ask for them.
//
//lint:file-ignore SA1019 see above

// askedForRoots is the type of the request that a server of the newer era returns as a result.
type askedForRoots = sdk.ListRootsParams

// offerRoots tells a server that it may ask for roots, if there are any. They do not change.
func (o Options) offerRoots(can *sdk.ClientCapabilities) {
	if o.Roots != nil {
		can.RootsV2 = &sdk.RootCapabilities{}
	}
}

// addRoots lets the client answer servers of the older era.
func (o Options) addRoots(c *sdk.Client) { c.AddRoots(o.roots()...) }

func (o Options) listRoots() *sdk.ListRootsResult { return &sdk.ListRootsResult{Roots: o.roots()} }

// roots returns the folders in the protocol's form.
func (o Options) roots() []*sdk.Root {
	list := []*sdk.Root{}
	for _, dir := range o.Roots {
		list = append(list, &sdk.Root{URI: (&url.URL{Scheme: "file", Path: dir}).String(), Name: path.Base(dir)})
	}
	return list
}
