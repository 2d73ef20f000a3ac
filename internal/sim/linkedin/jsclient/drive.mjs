// Does with LinkedIn's own client what a program would do, against the address that it is given,
// and prints what came of it as one JSON object. The client knows only the real hosts, so its
// requests are sent to that address instead.
import { createRequire } from "node:module";

// axios is loaded as the client loads it, since it has another instance for import.
const require = createRequire(import.meta.url);
const linkedin = require("linkedin-api-client");
const axios = require("axios");

const [base, redirectUrl, version] = process.argv.slice(2);
const here = (c) => ({ ...c, url: c.url.replace(/^https:\/\/(www|api)\.linkedin\.com/, base) });
axios.interceptors.request.use(here);
const { AuthClient, RestliClient } = linkedin;
const client = new RestliClient();
client.axiosInstance.interceptors.request.use(here);
const auth = new AuthClient({ clientId: "app", clientSecret: "app-secret", redirectUrl });

const refused = async (f) => {
  try {
    await f();
    return "no error";
  } catch (e) {
    return [e.response?.status ?? null, e.response?.data?.code ?? e.response?.data?.error ?? null];
  }
};

const link = auth.generateMemberAuthorizationUrl(["openid", "profile", "email", "w_member_social", "r_member_social"], "my-state").replace("https://www.linkedin.com", base);
const consent = await fetch(link, { redirect: "manual" });
const back = new URL(consent.headers.get("location"));
const code = back.searchParams.get("code");
const given = await auth.exchangeAuthCodeForAccessToken(code);
const accessToken = given.access_token;
const me = (await client.get({ resourcePath: "/userinfo", accessToken })).data;
const author = `urn:li:person:${me.sub}`;
const entity = (commentary) => ({
  author, commentary, visibility: "PUBLIC", lifecycleState: "PUBLISHED", isReshareDisabledByAuthor: false,
  distribution: { feedDistribution: "MAIN_FEED", targetEntities: [], thirdPartyDistributionChannels: [] },
});
const create = (commentary, more) => client.create({ resourcePath: "/posts", entity: entity(commentary), accessToken, versionString: version, ...more });
const post = await create("Hello \\(world\\) #go");
const cut = await create("One (two) three");
const comment = (target, text, object, parentComment) =>
  client.create({
    resourcePath: "/socialActions/{urn}/comments", pathKeys: { urn: target }, accessToken, versionString: version,
    entity: { actor: author, object, message: { text }, ...(parentComment ? { parentComment } : {}) },
  });
const first = await comment(post.createdEntityId, "Nice", post.createdEntityId);
const c = first.data;
const answer = await comment(c.commentUrn, "Thanks", c.object, c.commentUrn);
const comments = (urn) => client.getAll({ resourcePath: "/socialActions/{urn}/comments", pathKeys: { urn }, accessToken, versionString: version });
const found = await client.finder({ resourcePath: "/posts", finderName: "author", queryParams: { author, count: 10 }, accessToken, versionString: version });

console.log(JSON.stringify({
  state: back.searchParams.get("state"),
  given: [given.expires_in, given.scope, given.token_type, typeof given.refresh_token],
  codeTwice: await refused(() => auth.exchangeAuthCodeForAccessToken(code)),
  refreshed: (await auth.exchangeRefreshTokenForAccessToken(given.refresh_token)).access_token !== accessToken,
  status: (await auth.introspectAccessToken(accessToken)).data.status,
  me: [me.sub, me.name, me.email, typeof me.locale],
  post: [post.status, /^urn:li:share:\d+$/.test(post.createdEntityId), cut.status],
  comment: [first.status, first.createdEntityId === c.id, /^urn:li:comment:\(urn:li:activity:\d+,\d+\)$/.test(c.commentUrn), c.object.startsWith("urn:li:activity:"), c.message.text],
  reply: [answer.status, answer.data.parentComment === c.commentUrn],
  deep: await refused(() => comment(answer.data.commentUrn, "No", c.object, answer.data.commentUrn)),
  listed: [(await comments(post.createdEntityId)).data.elements.length, (await comments(c.object)).data.elements.length, (await comments(c.commentUrn)).data.elements.map((e) => e.message.text)],
  found: found.data.elements.map((e) => e.commentary),
  one: (await client.get({ resourcePath: "/posts/{id}", pathKeys: { id: post.createdEntityId }, accessToken, versionString: version })).data.commentary,
  duplicate: await refused(() => create("Hello \\(world\\) #go")),
  oldVersion: await refused(() => create("x", { versionString: "201901" })),
  badToken: await refused(() => create("x", { accessToken: "nonsense" })),
  notMine: await refused(() => client.create({ resourcePath: "/posts", entity: { ...entity("x"), author: "urn:li:person:other" }, accessToken, versionString: version })),
  removed: (await client.delete({ resourcePath: "/posts/{id}", pathKeys: { id: cut.createdEntityId }, accessToken, versionString: version })).status,
}));
