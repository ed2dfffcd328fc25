/** Who is calling, once their token has been checked. */
export interface Actor {
  userId: string;
  admin: boolean;
}
