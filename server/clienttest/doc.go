// Package clienttest drives the server with OpenAI's own client for Go. It is a
// module of its own, so that nobody who uses graphrun downloads the client.
package clienttest
