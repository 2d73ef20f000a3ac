package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/tool"
)

// book is a file of contacts. Each line of it has the id of the call that added it, so that it can be
// told later whether a call was made.
type book struct {
	path string
	mu   sync.Mutex // calls are made concurrently
}

type contact struct {
	Call parley.CallID `json:"call"`
	Name string        `json:"name"`
	Mail string        `json:"mail"`
}

type findIn struct {
	Name string `json:"name" jsonschema:"a part of the contact's name"`
}

type addIn struct {
	Name string `json:"name"`
	Mail string `json:"mail" jsonschema:"an address such as ana@example.com"`
}

func (b *book) tools() tool.Set {
	return tool.Set{
		tool.New(tool.Def{Name: "find_contact", Description: "Finds contacts by a part of their name.", Effect: parley.EffectRead}, b.find),
		tool.NewReconciled(tool.Def{Name: "add_contact", Description: "Adds a contact.", Subject: "{name}"}, b.add, b.added),
	}
}

func (b *book) find(_ context.Context, in findIn) (string, error) {
	all, err := b.all()
	if err != nil {
		return "", err
	}
	var found []string
	for _, c := range all {
		if strings.Contains(strings.ToLower(c.Name), strings.ToLower(in.Name)) {
			found = append(found, c.Name+": "+c.Mail)
		}
	}
	if len(found) == 0 {
		return "There is no " + in.Name + ".", nil
	}
	return strings.Join(found, "\n"), nil
}

// add is a write: an error that is not marked with NoEffect means that nobody knows whether it happened.
func (b *book) add(ctx context.Context, in addIn) (string, error) {
	if !strings.Contains(in.Mail, "@") {
		return "", tool.NoEffect(fmt.Errorf("%q is not an address", in.Mail))
	}
	line, err := json.Marshal(contact{tool.From(ctx).ID, in.Name, in.Mail})
	if err != nil {
		return "", tool.NoEffect(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f, err := os.OpenFile(b.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", tool.NoEffect(err)
	}
	_, err = f.Write(append(line, '\n'))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	wrote()
	return in.Name + " is in the contacts.", nil
}

// added tells whether the call was made: after a crash of the server, nobody else knows.
func (b *book) added(ctx context.Context, in addIn) (string, bool, error) {
	all, err := b.all()
	for _, c := range all {
		if c.Call == tool.From(ctx).ID {
			return in.Name + " is in the contacts.", true, nil
		}
	}
	return "", false, err
}

func (b *book) all() (list []contact, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	raw, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(raw)) {
		var c contact
		if json.Unmarshal([]byte(line), &c) == nil { // a crash may have cut off the last one
			list = append(list, c)
		}
	}
	return list, err
}

// wrote is called after a contact was written and before anybody knows. A test crashes the server there.
var wrote = func() {}
