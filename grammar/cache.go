package grammar

import (
	"container/list"
	"sync"
)

// Cache keeps compiled grammars with what their matchers have computed, so that
// a schema that comes with every request is compiled once and its masks stay
// warm. It may be used by any number of goroutines.
type Cache struct {
	mu    sync.Mutex
	most  int
	known map[string]*list.Element
	order *list.List // of *cached, the last used first
}

type cached struct {
	key string
	g   *Grammar
}

// NewCache returns a cache of at most n grammars. Each may hold up to 32 MiB of
// masks for a vocabulary.
func NewCache(n int) *Cache {
	return &Cache{most: max(n, 1), known: map[string]*list.Element{}, order: list.New()}
}

// Schema is FromSchema, for texts that are equal byte by byte. Errors are not
// kept.
func (c *Cache) Schema(schema []byte) (*Grammar, error) {
	return c.get("schema "+string(schema), func() (*Grammar, error) { return FromSchema(schema) })
}

// GBNF is ParseGBNF.
func (c *Cache) GBNF(src string) (*Grammar, error) {
	return c.get("gbnf "+src, func() (*Grammar, error) { return ParseGBNF(src) })
}

// JSONObject is JSONObject.
func (c *Cache) JSONObject() *Grammar {
	g, _ := c.get("object", func() (*Grammar, error) { return JSONObject(), nil })
	return g
}

func (c *Cache) get(key string, make func() (*Grammar, error)) (*Grammar, error) {
	if g := c.find(key); g != nil {
		return g, nil
	}
	g, err := make() // outside of the lock: others need not wait
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[key]; e != nil { // somebody else was faster
		return e.Value.(*cached).g, nil
	}
	c.known[key] = c.order.PushFront(&cached{key, g})
	if c.order.Len() > c.most {
		last := c.order.Back()
		c.order.Remove(last)
		delete(c.known, last.Value.(*cached).key)
	}
	return g, nil
}

func (c *Cache) find(key string) *Grammar {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).g
}
