// Signs in at the provider whose URL is the argument, and prints what openid-client and jose found.
import { createRemoteJWKSet, jwtVerify } from "jose";
import * as client from "openid-client";

const issuer = process.argv[2];
const redirect = "http://127.0.0.1:9/callback";
const config = await client.discovery(new URL(issuer), "page", undefined, client.ClientSecretBasic("secret"), { execute: [client.allowInsecureRequests] });
const verifier = client.randomPKCECodeVerifier();
const state = client.randomState();
const nonce = client.randomNonce();
const at = client.buildAuthorizationUrl(config, {
  redirect_uri: redirect, scope: "openid profile email", code_challenge: await client.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256", state, nonce,
});
const back = new URL((await fetch(at, { redirect: "manual" })).headers.get("location"));
const tokens = await client.authorizationCodeGrant(config, back, { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce });
const again = await client.authorizationCodeGrant(config, back, { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce }).then(() => "taken", (e) => e.error);
const info = await client.fetchUserInfo(config, tokens.access_token, tokens.claims().sub);
const keys = createRemoteJWKSet(new URL(config.serverMetadata().jwks_uri));
const { payload, protectedHeader } = await jwtVerify(tokens.access_token, keys, { issuer, audience: "parley", typ: "at+jwt", algorithms: ["RS256"] });
const end = client.buildEndSessionUrl(config, { post_logout_redirect_uri: "http://127.0.0.1:9/" });
const out = await fetch(end, { redirect: "manual" });
console.log(JSON.stringify({
  sub: tokens.claims().sub, name: info.name, again, org: payload.org_id, alg: protectedHeader.alg, out: out.headers.get("location"),
}));
