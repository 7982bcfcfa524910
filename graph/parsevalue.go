package graph

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// value reads one value line; print.go shows the form.
func (p *parser) value() error {
	at := p.pos
	id, err := p.id()
	if err != nil {
		return err
	}
	if l := p.lines[id]; l != 0 {
		return p.fail(at, fmt.Sprintf("v%d, defined on line %d already", id, l), "an id of its own")
	}
	if !p.take("=") {
		return p.failHere("=")
	}
	v := &Value{ID: id, Layer: -1}
	p.skip()
	opAt := p.pos
	if err := p.operation(v); err != nil {
		return err
	}
	if v.Attrs, err = p.attrs(v.Op); err != nil {
		return err
	}
	if err := p.typ(v, opAt); err != nil {
		return err
	}
	if err := p.place(v); err != nil {
		return err
	}
	p.values[id], p.lines[id] = v, p.line
	p.g.Values = append(p.g.Values, v)
	return nil
}

// operation reads the operation and its arguments, or the name of a leaf.
func (p *parser) operation(v *Value) error {
	p.skip()
	at := p.pos
	name := p.word()
	if v.Op = LookupOp(name); v.Op == nil {
		return p.fail(at, "unknown operation "+strconv.Quote(name), "one of "+opNames())
	}
	if v.Op.Is(Leaf) {
		if p.peek() == '"' {
			var err error
			if v.Name, err = p.quoted("the leaf's name"); err != nil {
				return err
			}
		}
		return nil
	}
	p.skip()
	at = p.pos
	for p.peek() == 'v' {
		a, err := p.known()
		if err != nil {
			return err
		}
		v.Args = append(v.Args, a)
	}
	if v.Op.checkArity(len(v.Args)) != nil {
		return p.fail(at, fmt.Sprintf("%d arguments", len(v.Args)), v.Op.arityText()+" for "+v.Op.Name)
	}
	return nil
}

func opNames() string {
	ops := Ops()
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = op.Name
	}
	return strings.Join(names, ", ")
}

// attrs reads {key=value, key=value}, checked against the operation, defaults
// filled in.
func (p *parser) attrs(op *Op) (Attrs, error) {
	p.skip()
	at := p.pos
	var a Attrs
	if p.take("{") {
		for n := 0; !p.take("}"); n++ {
			if n > 0 && !p.take(",") {
				return nil, p.failHere(", or }")
			}
			if err := p.attrPair(op, &a); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range op.Attrs {
		if a.Get(s.Name) != nil {
			continue
		}
		if s.Required {
			return nil, p.fail(at, "no attribute "+s.Name, fmt.Sprintf("a %s: %s needs it", attrType(s.Default), op.Name))
		}
		a = a.With(s.Name, s.Default)
	}
	return a, nil
}

func (p *parser) attrPair(op *Op, a *Attrs) error {
	p.skip()
	at := p.pos
	key := p.key()
	if key == "" {
		return p.failHere("the name of an attribute")
	}
	spec := op.attr(key)
	if spec == nil {
		known := make([]string, len(op.Attrs))
		for i, s := range op.Attrs {
			known[i] = s.Name
		}
		want := "none: " + op.Name + " has no attributes"
		if len(known) > 0 {
			want = "one of " + strings.Join(known, ", ")
		}
		return p.fail(at, "unknown attribute "+strconv.Quote(key), want)
	}
	if a.Get(key) != nil {
		return p.fail(at, "a second "+key, "each attribute once")
	}
	if !p.take("=") {
		return p.failHere("=")
	}
	p.skip()
	at = p.pos
	text := p.attrValue()
	val, err := parseAttr(text)
	if err != nil {
		return p.fail(at, strconv.Quote(text), "a "+attrType(spec.Default)+" for "+key+": "+err.Error())
	}
	if attrType(val) != attrType(spec.Default) {
		return p.fail(at, "the "+attrType(val)+" "+text, "a "+attrType(spec.Default)+" for "+key)
	}
	*a = a.With(key, val)
	return nil
}

// attrValue passes one number, string, bool or list and returns its text.
func (p *parser) attrValue() string {
	rest := p.s[p.pos:]
	end := 0
	switch {
	case strings.HasPrefix(rest, `"`):
		q, err := strconv.QuotedPrefix(rest)
		if end = len(q); err != nil {
			end = len(rest)
		}
	case strings.HasPrefix(rest, "["), strings.HasPrefix(rest, "f["):
		if end = strings.IndexByte(rest, ']') + 1; end == 0 {
			end = len(rest)
		}
	default:
		if end = strings.IndexAny(rest, ",} \t"); end < 0 {
			end = len(rest)
		}
	}
	p.pos += end
	return rest[:end]
}

// typ reads the type and compares it with the one that follows from the
// arguments. Only leaves need it.
func (p *parser) typ(v *Value, opAt int) error {
	declared := false
	p.skip()
	at := p.pos
	if p.take(":") {
		p.skip()
		at = p.pos
		text := p.word()
		t, err := ParseType(text)
		if err != nil {
			return p.fail(at, strconv.Quote(text), "a type such as f32[T,64]: "+strings.TrimPrefix(err.Error(), "graph: "))
		}
		v.Type, declared = t, true
	}
	if v.Op.Is(Leaf) {
		if !declared {
			return p.failHere(": and the type of the " + v.Op.Name)
		}
		return nil
	}
	types := make([]Type, len(v.Args))
	for i, a := range v.Args {
		types[i] = a.Type
	}
	t, err := v.Op.Infer(types, v.Attrs)
	if err != nil {
		return p.fail(opAt, fmt.Sprintf("operands that do not fit %s: %v", v.Op.Name, err), "operands that fit")
	}
	if declared && !t.Equal(v.Type) {
		return p.fail(at, "type "+v.Type.String(), t.String()+", which follows from the arguments of "+v.Op.Name)
	}
	v.Type = t
	return nil
}

// place reads what may follow the type: role, layer, origin, plan and data.
func (p *parser) place(v *Value) (err error) {
	if p.peek() == '"' && !v.Op.Is(Leaf) {
		if v.Name, err = p.quoted("the value's name"); err != nil {
			return err
		}
	}
	if p.take("L") {
		if v.Layer, err = p.number("a layer", maxLayer); err != nil {
			return err
		}
	}
	if p.take("@") {
		if p.pos < len(p.s) && p.s[p.pos] == '"' {
			v.Origin, err = p.quoted("the origin")
		} else if at := p.pos; p.atEnd() || p.pos != at {
			p.pos = at
			err = p.failHere("an origin such as llama.go:31")
		} else {
			v.Origin = p.word()
		}
		if err != nil {
			return err
		}
	}
	if p.take("mem=") {
		if err := p.mem(v); err != nil {
			return err
		}
	}
	return p.data(v)
}

// mem reads offset+size live=first..last.
func (p *parser) mem(v *Value) (err error) {
	m := &Mem{}
	read := func(n *int, what string, limit int, then string) {
		if err != nil {
			return
		}
		if *n, err = p.number(what, limit); err == nil && then != "" && !p.take(then) {
			err = p.failHere(then)
		}
	}
	read(&m.Offset, "an offset", maxSize, "+")
	read(&m.Size, "a size", maxSize, "live=")
	read(&m.First, "a step", maxParsedID, "..")
	read(&m.Last, "a step", maxParsedID, "")
	v.Mem = m
	return err
}

// data reads the numbers of a const.
func (p *parser) data(v *Value) error {
	p.skip()
	at := p.pos
	if !p.take("data=") {
		if v.Op == OpConst {
			return p.failHere("data=[..] of the const")
		}
		return nil
	}
	if v.Op != OpConst {
		return p.fail(at, "data of "+v.Op.Name, "end of line: only a const has data")
	}
	at = p.pos
	if p.pos >= len(p.s) || p.s[p.pos] != '[' {
		return p.failHere("[ and numbers")
	}
	text := p.attrValue()
	data, err := parseFloats(text)
	if err != nil || !strings.HasSuffix(text, "]") {
		return p.fail(at, strconv.Quote(shorten(text)), "a list of floats such as [1.0 2.5]")
	}
	if n, ok := constElems(v.Type); !ok || n != len(data) {
		return p.fail(at, fmt.Sprintf("%d numbers", len(data)), "as many as fill "+v.Type.String()+", a const is f32 of fixed shape")
	}
	v.Data = data
	return nil
}

func shorten(s string) string {
	if len(s) > 40 {
		return s[:40] + "..."
	}
	return s
}

// constElems returns how many numbers a const of type t holds; false when t is
// not f32 of a fixed shape that memory could hold.
func constElems(t Type) (int, bool) {
	if t.DType != F32 || !t.Shape.Fixed() {
		return 0, false
	}
	n := 1
	for _, d := range t.Shape {
		if d.Size != 0 && n > math.MaxInt32/d.Size {
			return 0, false
		}
		n *= d.Size
	}
	return n, true
}
