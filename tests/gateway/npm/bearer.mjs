// Loaded before a program that cannot be told a token (node --import): every HTTP request of it carries one.
// MCP_TOKEN is the token. Requests are caught where Node tells about them, so none of the ways to make one is missed.
import { subscribe } from 'node:diagnostics_channel';

const value = `Bearer ${process.env.MCP_TOKEN}`;
subscribe('undici:request:create', ({ request }) => request.addHeader('authorization', value));
subscribe('http.client.request.created', ({ request }) => request.setHeader('authorization', value));
