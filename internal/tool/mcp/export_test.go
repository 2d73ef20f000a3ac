//go:build unix

package mcp

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// NewOver is New over connections that the test makes.
func NewOver(o Options, dial func(ctx context.Context) (sdk.Transport, func(), error)) *Toolset {
	o.URL = "http://127.0.0.1:1"
	made, err := New(o)
	if err != nil {
		panic(err)
	}
	return newToolset(made.o, dialFunc(dial))
}

type dialFunc func(ctx context.Context) (sdk.Transport, func(), error)

func (f dialFunc) dial(ctx context.Context) (carrier, error) {
	t, end, err := f(ctx)
	return carrier{Transport: t, end: end}, err
}

const (
	MaxMessage = maxMessage
	MaxBackoff = maxBackoff
)

// Outline reads a message in parts. It returns the id, and whether the message is an answer.
func Outline(parts ...[]byte) (id string, answer bool) {
	var o outline
	for _, p := range parts {
		o.read(p)
	}
	return string(o.id), o.answer() && !o.broken
}

func LastWords(text string) string { return lastWords(text) }
