// Command newarch shows how a program of your own adds an architecture: one
// record in one file (tandem.go), registered from outside of graphrun's module.
//
//	newarch            writes a small random model and runs it
//	newarch MODEL.gguf runs a model
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"graphrun/engine"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	path := ""
	if len(args) > 0 {
		path = args[0]
	} else {
		dir, err := os.MkdirTemp("", "newarch")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "tandem.gguf")
		if err := writeModel(path); err != nil {
			return err
		}
	}
	m, err := engine.Open(path, engine.Options{})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("%s: %d layers, %d values as built, %d after all passes\n", m.Arch.Arch.Name, len(m.Arch.Layers), len(m.Graph.Values), len(m.Program().Graph().Values))

	ctx := context.Background()
	s := m.NewSession()
	defer s.Close()
	if err := s.Append(ctx, m.Encode("tandem")...); err != nil {
		return err
	}
	for tok, err := range s.Generate(ctx, engine.GenerateOptions{MaxTokens: 8, IgnoreEOG: true}) {
		if err != nil {
			return err
		}
		fmt.Print(tok.ID, " ")
	}
	fmt.Println()
	return nil
}
