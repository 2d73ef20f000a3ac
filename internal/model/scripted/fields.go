package scripted

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// checkFields reports the first field that a rule's template takes from the [view] and that
// the view does not have: such a template parses, and would only fail in a turn. What range
// and with put in the place of the view is not looked at.
func checkFields(tree *parse.Tree) error {
	if tree == nil || tree.Root == nil {
		return nil
	}
	return fieldsOf(tree.Root, true)
}

// fieldsOf walks a node. here says that the dot is the view.
func fieldsOf(n parse.Node, here bool) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		return each(n.Nodes, here)
	case *parse.ActionNode:
		return fieldsOf(n.Pipe, here)
	case *parse.TemplateNode:
		return fieldsOf(n.Pipe, here)
	case *parse.PipeNode:
		if n == nil {
			return nil
		}
		return each(n.Cmds, here)
	case *parse.CommandNode:
		return each(n.Args, here)
	case *parse.IfNode:
		return each([]parse.Node{n.Pipe, n.List, n.ElseList}, here)
	case *parse.RangeNode:
		return branch(&n.BranchNode, here)
	case *parse.WithNode:
		return branch(&n.BranchNode, here)
	case *parse.ChainNode:
		return fieldsOf(n.Node, here)
	case *parse.FieldNode:
		if here {
			return missing(n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return missing(n.Ident[1:])
		}
	}
	return nil
}

func each[N parse.Node](nodes []N, here bool) error {
	for _, n := range nodes {
		if err := fieldsOf(n, here); err != nil {
			return err
		}
	}
	return nil
}

// branch is a range or with, whose list has another dot.
func branch(n *parse.BranchNode, here bool) error {
	if err := fieldsOf(n.Pipe, here); err != nil {
		return err
	}
	if err := fieldsOf(n.List, false); err != nil {
		return err
	}
	return fieldsOf(n.ElseList, here)
}

// missing follows names from the view as far as they are fields of structs.
func missing(names []string) error {
	t := reflect.TypeFor[view]()
	for i, name := range names {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil
		}
		f, ok := t.FieldByName(name)
		if !ok || !f.IsExported() {
			return fmt.Errorf("there is no .%s; there are %s", strings.Join(names[:i+1], "."), exported(t, names[:i]))
		}
		t = f.Type
	}
	return nil
}

func exported(t reflect.Type, below []string) string {
	var list []string
	for f := range t.Fields() {
		if f.IsExported() {
			list = append(list, "."+strings.Join(append(below[:len(below):len(below)], f.Name), "."))
		}
	}
	return strings.Join(list, ", ")
}
